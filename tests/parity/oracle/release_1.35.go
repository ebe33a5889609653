//go:build kube1.35

package main

import (
	"context"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

type eventRecorder = events.EventRecorder

func newCache(ctx context.Context) internalcache.Cache { return internalcache.New(ctx, 0, nil) }

func isPreempting(plugin *defaultpreemption.DefaultPreemption, preemptor types.UID) bool {
	return plugin.Evaluator.IsPodRunningPreemption(preemptor)
}

//go:linkname findNodesThatFitPod k8s.io/kubernetes/pkg/scheduler.(*Scheduler).findNodesThatFitPod
func findNodesThatFitPod(
	sched *kubescheduler.Scheduler, ctx context.Context, runner framework.Framework,
	state fwk.CycleState, pod *corev1.Pod,
) ([]fwk.NodeInfo, framework.Diagnosis, string, fwk.PodSignature, error)

func nodesThatFit(
	sched *kubescheduler.Scheduler, ctx context.Context, runner framework.Framework,
	state fwk.CycleState, pod *corev1.Pod,
) ([]fwk.NodeInfo, framework.Diagnosis, error) {
	feasible, diagnosis, _, _, err := findNodesThatFitPod(sched, ctx, runner, state, pod)
	return feasible, diagnosis, err
}
