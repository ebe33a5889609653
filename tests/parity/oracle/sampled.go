package main

import (
	"context"
	"reflect"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// samplingAnswer says which nodes a search that ends early has left: Next is where that of the
// next pod begins.
type samplingAnswer struct {
	Next int `json:"next"`
}

// search is kube-scheduler's for one pod, with one worker. It begins at s.start and leaves there
// where the next one begins.
func (s *scheduler) search(
	ctx context.Context, runner framework.Framework, state fwk.CycleState, pod *corev1.Pod,
) ([]fwk.NodeInfo, framework.Diagnosis, error) {
	sched := &kubescheduler.Scheduler{Profiles: s.profiles, Extenders: s.extenders}
	index := unexported[int](sched, "nextStartNodeIndex")
	*index = s.start
	*unexported[int32](sched, "percentageOfNodesToScore") = s.percentage
	*unexported[*internalcache.Snapshot](sched, "nodeInfoSnapshot") = s.snapshot
	feasible, diagnosis, err := nodesThatFit(sched, ctx, runner, state, pod)
	s.start = *index
	return feasible, diagnosis, err
}

// unexported is a field of kube-scheduler that only its own constructor sets.
func unexported[T any](sched *kubescheduler.Scheduler, name string) *T {
	field := reflect.ValueOf(sched).Elem().FieldByName(name)
	if field.Type() != reflect.TypeFor[T]() {
		panic(name + " of kube-scheduler is a " + field.Type().String())
	}
	return (*T)(unsafe.Pointer(field.UnsafeAddr()))
}

// treeOrder gives each node the place that it has in kube-scheduler's list: its cache goes round
// the zones.
func treeOrder(nodes []*corev1.Node) (map[string]int, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	logger := klog.FromContext(ctx)
	cache, snapshot := newCache(ctx), internalcache.NewEmptySnapshot()
	for _, node := range nodes {
		cache.AddNode(logger, node)
	}
	if err := cache.UpdateSnapshot(logger, snapshot); err != nil {
		return nil, err
	}
	list, err := snapshot.List()
	if err != nil {
		return nil, err
	}
	order := map[string]int{}
	for number, info := range list {
		order[info.Node().Name] = number
	}
	return order, nil
}
