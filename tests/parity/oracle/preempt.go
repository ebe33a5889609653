package main

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// preemptionAnswer says what PostFilter would do for a pod that fits nowhere, and on which nodes
// removing pods would make room. Where several are equal to the last rule, which of them is chosen
// is chance.
type preemptionAnswer struct {
	Candidates map[string]candidateAnswer `json:"candidates"`
	// Best is the node that the pod is nominated for; Message is said where there is none.
	Best    string `json:"best"`
	Message string `json:"message"`
	// Evicted pods are deleted (NAMESPACE/NAME, sorted), Patches what is written to pods' status.
	Evicted []string                   `json:"evicted"`
	Patches map[string]json.RawMessage `json:"patches"`
}

type candidateAnswer struct {
	// Victims are NAMESPACE/NAME, the most important first.
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations"`
}

// preempt is the profile's PostFilter, at an API server that only remembers what it is told; and
// DefaultPreemption's dry run on every node that may help, which PostFilter does not show. PostFilter itself
// tries a tenth of the nodes, and a hundred at least: all that a case of preemption has.
func preempt(
	ctx context.Context, handle *evicting, state fwk.CycleState, pod *corev1.Pod,
	diagnosis framework.Diagnosis,
) (*preemptionAnswer, error) {
	handle.server.forget()
	answer := &preemptionAnswer{
		Candidates: map[string]candidateAnswer{}, Patches: handle.server.patches,
	}
	plugin := handle.preemption
	result, status := postFilter(ctx, handle, state, pod, diagnosis)
	for isPreempting(plugin, pod.UID) {
		time.Sleep(20 * time.Microsecond) // victims go beside the cycle
	}
	if status.Code() == fwk.Error && status.Plugin() == names.DefaultPreemption {
		return nil, status.AsError()
	}
	answer.Message, answer.Evicted = status.Message(), handle.server.evicted
	if !status.IsSuccess() {
		return answer, nil
	}
	answer.Best = result.NominatedNodeName
	infos := handle.SnapshotSharedLister().NodeInfos()
	nodes, err := diagnosis.NodeToStatus.NodesForStatusCode(infos, fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return answer, err
	}
	budgets, err := plugin.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	count := int32(len(nodes))
	found, _, err := plugin.Evaluator.DryRunPreemption(ctx, state, pod, nodes, budgets, 0, count)
	if err != nil || len(found) == 0 {
		return answer, err
	}
	for _, one := range found {
		victims := []string{}
		for _, victim := range one.Victims().Pods {
			victims = append(victims, victim.Namespace+"/"+victim.Name)
		}
		answer.Candidates[one.Name()] = candidateAnswer{victims, one.Victims().NumPDBViolations}
	}
	return answer, nil
}

// postFilter is RunPostFilterPlugins with the handle's plugins in place of the profile's own, which
// have no API server.
func postFilter(
	ctx context.Context, handle *evicting, state fwk.CycleState, pod *corev1.Pod,
	diagnosis framework.Diagnosis,
) (*fwk.PostFilterResult, *fwk.Status) {
	var result *fwk.PostFilterResult
	var reasons []string
	for _, one := range handle.ListPlugins().PostFilter.Enabled {
		found, status := handle.plugins[one.Name].PostFilter(ctx, state, pod, diagnosis.NodeToStatus)
		switch {
		case status.IsSuccess() || status.Code() == fwk.UnschedulableAndUnresolvable:
			return found, status
		case !status.IsRejected():
			return nil, fwk.AsStatus(status.AsError()).WithPlugin(one.Name)
		case found != nil && found.Mode() != fwk.ModeNoop:
			result = found
		}
		reasons = append(reasons, status.Reasons()...)
	}
	return result, fwk.NewStatus(fwk.Unschedulable, reasons...)
}
