package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// podAnswer says how each node would fare for one pod.
type podAnswer struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// PreEnqueueStatus is there for pods that are kept out of the queue.
	PreEnqueueStatus *statusAnswer         `json:"preEnqueueStatus,omitempty"`
	PreFilterStatus  statusAnswer          `json:"preFilterStatus"`
	Nodes            map[string]nodeAnswer `json:"nodes"`
	FitError         string                `json:"fitError"`
	Best             []string              `json:"best"`
	Preemption       *preemptionAnswer     `json:"preemption,omitempty"`
	Sampling         *samplingAnswer       `json:"sampling,omitempty"`
}

type statusAnswer struct {
	Code    string   `json:"code"`
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
}

type nodeAnswer struct {
	Feasible bool `json:"feasible"`
	statusAnswer
	// Scores are weighted, after normalisation; a plugin that did not run is not there.
	Scores map[string]int64 `json:"scores"`
	Total  int64            `json:"total"`
}

// decide is kube-scheduler's schedulePod: for every node unless the case has a start index, without
// a hint from a former pod, and with scores even for the only feasible node.
func (s *scheduler) decide(
	ctx context.Context, pod *corev1.Pod, mayPreempt bool,
) (podAnswer, error) {
	result := podAnswer{
		Namespace:       pod.Namespace,
		Name:            pod.Name,
		PreFilterStatus: newStatusAnswer(nil),
		Nodes:           map[string]nodeAnswer{},
		Best:            []string{},
	}
	runner, err := s.profileOf(pod.Spec.SchedulerName)
	if err != nil {
		return result, err
	}
	for _, plugin := range runner.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			told := newStatusAnswer(status.WithPlugin(plugin.Name()))
			result.PreEnqueueStatus = &told
			break
		}
	}
	all, err := s.lister.NodeInfos().List()
	if err != nil {
		return result, err
	}
	if s.samples {
		result.Sampling = &samplingAnswer{Next: s.start}
	}
	if len(all) == 0 {
		result.FitError = kubescheduler.ErrNoNodesAvailable.Error()
		return result, nil
	}
	state := framework.NewCycleState()
	feasible, diagnosis, err := s.filter(ctx, runner, state, pod, all, &result)
	if err == nil && !s.samples {
		feasible, err = findNodesThatPassExtenders(
			ctx, s.extenders, pod, feasible, diagnosis.NodeToStatus,
		)
	}
	if err == nil && s.samples {
		state = framework.NewCycleState()
		feasible, diagnosis, err = s.search(ctx, runner, state, pod)
		result.Sampling.Next = s.start
	}
	if err != nil {
		return result, err
	}
	for _, info := range all {
		name := info.Node().Name
		status := diagnosis.NodeToStatus.Get(name)
		if len(status.Reasons()) == 0 {
			continue // it is feasible, or was not looked at
		}
		result.Nodes[name] = nodeAnswer{
			statusAnswer: newStatusAnswer(status),
			Scores:       map[string]int64{},
		}
	}
	if len(feasible) == 0 {
		failure := framework.FitError{Pod: pod, NumAllNodes: len(all), Diagnosis: diagnosis}
		result.FitError = failure.Error()
		if mayPreempt {
			result.Preemption, err = preempt(ctx, s.evicting[pod.Spec.SchedulerName], state, pod, diagnosis)
		}
		return result, err
	}
	return result, score(ctx, s.extenders, runner, state, pod, feasible, &result)
}

// filter follows findNodesThatFitPod; the PreFilter status goes into the answer.
func (s *scheduler) filter(
	ctx context.Context, runner framework.Framework, state fwk.CycleState, pod *corev1.Pod,
	all []fwk.NodeInfo, result *podAnswer,
) ([]fwk.NodeInfo, framework.Diagnosis, error) {
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	narrowed, status, rejectors := runner.RunPreFilterPlugins(ctx, state, pod)
	diagnosis.UnschedulablePlugins = rejectors
	result.PreFilterStatus = newStatusAnswer(status)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, diagnosis, status.AsError()
		}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		diagnosis.AddPluginStatus(status)
		return nil, diagnosis, nil
	}
	nodes := all
	if !narrowed.AllNodes() {
		nodes = nil
		for _, info := range all {
			if narrowed.NodeNames.Has(info.Node().Name) {
				nodes = append(nodes, info)
			}
		}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(
			fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(rejectors)),
		))
	}
	var feasible []fwk.NodeInfo
	for _, info := range nodes {
		status := runner.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
		if status.Code() == fwk.Error {
			return nil, diagnosis, status.AsError()
		}
		if status.IsSuccess() {
			feasible = append(feasible, info)
			continue
		}
		diagnosis.NodeToStatus.Set(info.Node().Name, status)
		diagnosis.AddPluginStatus(status)
	}
	return feasible, diagnosis, nil
}

// score is kube-scheduler's prioritizeNodes, and fills in the feasible nodes and the best of them.
func score(
	ctx context.Context, extenders []fwk.Extender, runner framework.Framework,
	state fwk.CycleState, pod *corev1.Pod, feasible []fwk.NodeInfo, result *podAnswer,
) error {
	scored, err := prioritizeNodes(ctx, extenders, runner, state, pod, feasible)
	if err != nil {
		return err
	}
	highest := scored[0].TotalScore
	for _, one := range scored {
		node := nodeAnswer{
			Feasible:     true,
			statusAnswer: newStatusAnswer(nil),
			Scores:       map[string]int64{},
			Total:        one.TotalScore,
		}
		for _, plugin := range one.Scores {
			node.Scores[plugin.Name] = plugin.Score
		}
		result.Nodes[one.Name] = node
		highest = max(highest, one.TotalScore)
	}
	for _, one := range scored {
		if one.TotalScore == highest {
			result.Best = append(result.Best, one.Name)
		}
	}
	slices.Sort(result.Best)
	return nil
}

// newStatusAnswer is never without a list of reasons: those who read it need not ask.
func newStatusAnswer(status *fwk.Status) statusAnswer {
	if status == nil {
		return statusAnswer{Code: fwk.Success.String(), Reasons: []string{}}
	}
	reasons := append([]string{}, status.Reasons()...)
	return statusAnswer{Code: status.Code().String(), Plugin: status.Plugin(), Reasons: reasons}
}
