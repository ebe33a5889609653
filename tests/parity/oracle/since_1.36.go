//go:build !kube1.35

package main

import (
	"context"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

type eventRecorder = events.EventRecorderLogger

// GetPodInPreBind finds none: no pod of a case is about to be bound.
func (e *evicting) GetPodInPreBind(types.UID) fwk.PodInPreBind { return nil }

func isPreempting(plugin *defaultpreemption.DefaultPreemption, preemptor types.UID) bool {
	return plugin.Executor.IsPodRunningPreemption(preemptor)
}

//go:linkname findNodesThatFitPod k8s.io/kubernetes/pkg/scheduler.(*Scheduler).findNodesThatFitPod
func findNodesThatFitPod(
	sched *kubescheduler.Scheduler, ctx context.Context, runner framework.Framework,
	state fwk.CycleState, queued *framework.QueuedPodInfo,
) ([]fwk.NodeInfo, framework.Diagnosis, string, error)

func nodesThatFit(
	sched *kubescheduler.Scheduler, ctx context.Context, runner framework.Framework,
	state fwk.CycleState, pod *corev1.Pod,
) ([]fwk.NodeInfo, framework.Diagnosis, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, framework.Diagnosis{}, err
	}
	queued := &framework.QueuedPodInfo{PodInfo: info}
	feasible, diagnosis, _, err := findNodesThatFitPod(sched, ctx, runner, state, queued)
	return feasible, diagnosis, err
}
