package main

import (
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

// namespaced says whether objects of this kind live in a namespace.
func namespaced(object runtime.Object) bool {
	switch object.(type) {
	case *corev1.Namespace, *corev1.Node, *corev1.PersistentVolume,
		*resourcev1.DeviceClass, *resourcev1.ResourceSlice,
		*schedulingv1.PriorityClass,
		*storagev1.CSIDriver, *storagev1.CSINode, *storagev1.StorageClass,
		*storagev1.VolumeAttachment:
		return false
	}
	return true
}

// fillStores gives the plugins' listers the case's objects; those of other kinds go unread.
func (s *scheduler) fillStores(c *cluster) error {
	for kind, informer := range informersOf(s.informed) {
		if err := informer.GetIndexer().Replace(c.objects[kind], "1"); err != nil {
			return err
		}
	}
	return nil
}

// informersOf lists the kinds that the plugins look at.
func informersOf(f informers.SharedInformerFactory) map[reflect.Type]cache.SharedIndexInformer {
	apps, core := f.Apps().V1(), f.Core().V1()
	policy, resource, storage := f.Policy().V1(), f.Resource().V1(), f.Storage().V1()
	return map[reflect.Type]cache.SharedIndexInformer{
		reflect.TypeFor[*appsv1.ReplicaSet]():            apps.ReplicaSets().Informer(),
		reflect.TypeFor[*appsv1.StatefulSet]():           apps.StatefulSets().Informer(),
		reflect.TypeFor[*corev1.Namespace]():             core.Namespaces().Informer(),
		reflect.TypeFor[*corev1.Node]():                  core.Nodes().Informer(),
		reflect.TypeFor[*corev1.PersistentVolume]():      core.PersistentVolumes().Informer(),
		reflect.TypeFor[*corev1.PersistentVolumeClaim](): core.PersistentVolumeClaims().Informer(),
		reflect.TypeFor[*corev1.Pod]():                   core.Pods().Informer(),
		reflect.TypeFor[*corev1.ReplicationController](): core.ReplicationControllers().Informer(),
		reflect.TypeFor[*corev1.Service]():               core.Services().Informer(),
		reflect.TypeFor[*policyv1.PodDisruptionBudget](): policy.PodDisruptionBudgets().Informer(),
		reflect.TypeFor[*resourcev1.DeviceClass]():       resource.DeviceClasses().Informer(),
		reflect.TypeFor[*storagev1.CSIDriver]():          storage.CSIDrivers().Informer(),
		reflect.TypeFor[*storagev1.CSINode]():            storage.CSINodes().Informer(),
		reflect.TypeFor[*storagev1.CSIStorageCapacity](): storage.CSIStorageCapacities().Informer(),
		reflect.TypeFor[*storagev1.StorageClass]():       storage.StorageClasses().Informer(),
		reflect.TypeFor[*storagev1.VolumeAttachment]():   storage.VolumeAttachments().Informer(),
	}
}

// caseOrder gives each node its place in the case.
func caseOrder(nodes []*corev1.Node) map[string]int {
	order := map[string]int{}
	for number, node := range nodes {
		order[node.Name] = number
	}
	return order
}

// newSnapshot is kube-scheduler's own, with every list in the given order: the constructor takes
// that of a Go map, which differs from run to run.
func newSnapshot(c *cluster, order map[string]int) (*internalcache.Snapshot, error) {
	snapshot := internalcache.NewSnapshot(c.placed, c.nodes)
	infos := snapshot.NodeInfos()
	for _, list := range []func() ([]fwk.NodeInfo, error){
		infos.List, infos.HavePodsWithAffinityList, infos.HavePodsWithRequiredAntiAffinityList,
	} {
		nodes, err := list()
		if err != nil {
			return nil, err
		}
		slices.SortFunc(nodes, func(a, b fwk.NodeInfo) int {
			return order[a.Node().Name] - order[b.Node().Name]
		})
	}
	return snapshot, nil
}
