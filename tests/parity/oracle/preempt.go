package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// preemptionAnswer says on which nodes removing pods would make room, and the one that is chosen.
// Where several are equal to the last rule, which of them is chosen is chance.
type preemptionAnswer struct {
	Candidates map[string]candidateAnswer `json:"candidates"`
	Best       string                     `json:"best"`
}

type candidateAnswer struct {
	// Victims are NAMESPACE/NAME, the most important first.
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations"`
}

// preempt is DefaultPreemption's Preempt up to the choice: every node that may help is tried, and
// nobody is evicted.
func preempt(
	ctx context.Context, runner framework.Framework, state fwk.CycleState, pod *corev1.Pod,
	diagnosis framework.Diagnosis,
) (*preemptionAnswer, error) {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	args := config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100}
	plugin, err := defaultpreemption.New(ctx, &args, runner, features)
	if err != nil {
		return nil, err
	}
	answer := &preemptionAnswer{Candidates: map[string]candidateAnswer{}}
	if able, _ := plugin.PodEligibleToPreemptOthers(ctx, pod, nil); !able {
		return answer, nil
	}
	infos := runner.SnapshotSharedLister().NodeInfos()
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
	answer.Best = plugin.Evaluator.SelectCandidate(ctx, found).Name()
	return answer, nil
}
