package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	schedulinghelpers "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
)

// cluster holds a case as kube-scheduler would know it from its API server.
type cluster struct {
	objects map[reflect.Type][]any
	nodes   []*corev1.Node
	// placed pods have a node that exists, nominated ones none yet, but a nominated one.
	placed    []*corev1.Pod
	nominated []*corev1.Pod
	asked     []*corev1.Pod
}

// read decodes a case: with the API server's defaults, its changes to created pods, and the
// admission of priorities. Nothing is validated, and no other admission plugin runs.
func read(one testCase) (*cluster, error) {
	found := &cluster{objects: map[reflect.Type][]any{}}
	pods, err := found.readObjects(one.Objects)
	if err != nil {
		return nil, err
	}
	asked, err := decodePods(one.Pods)
	if err != nil {
		return nil, err
	}
	admit, err := found.newAdmission()
	if err != nil {
		return nil, err
	}
	number := 0
	finish := func(drafts []*corev1.Pod) ([]*corev1.Pod, error) {
		var finished []*corev1.Pod
		for _, draft := range drafts {
			number++
			pod, err := create(draft, admit, number)
			if err != nil {
				return nil, fmt.Errorf("pod %s/%s: %w", draft.Namespace, draft.Name, err)
			}
			finished = append(finished, pod)
		}
		return finished, nil
	}
	others, err := finish(pods)
	if err != nil {
		return nil, err
	}
	if found.asked, err = finish(asked); err != nil {
		return nil, err
	}
	found.sortPods(others)
	found.addNamespaces()
	return found, nil
}

// readObjects keeps everything but the pods, which are returned, not finished yet.
func (c *cluster) readObjects(all []json.RawMessage) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	given := map[string]bool{}
	for number, raw := range all {
		object, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", number, err)
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", number, err)
		}
		name := fmt.Sprintf("%T %s/%s", object, accessor.GetNamespace(), accessor.GetName())
		if given[name] {
			return nil, fmt.Errorf("objects[%d]: %s is there twice", number, name)
		}
		given[name] = true
		switch typed := object.(type) {
		case *corev1.Pod:
			pods = append(pods, typed)
		case *corev1.Node:
			c.nodes = append(c.nodes, typed)
			c.add(typed)
		default:
			c.add(object)
		}
	}
	return pods, nil
}

func decodePods(all []json.RawMessage) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for number, raw := range all {
		object, err := decode(raw)
		if err != nil {
			return nil, fmt.Errorf("pods[%d]: %w", number, err)
		}
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("pods[%d]: is a %T", number, object)
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

// decode reads one object of any version and fills in what the API server would.
func decode(raw []byte) (runtime.Object, error) {
	object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(object)
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if accessor.GetNamespace() == "" && namespaced(object) {
		accessor.SetNamespace(metav1.NamespaceDefault)
	}
	return object, nil
}

// newAdmission is kube-apiserver's admission plugin for priorities, with the case's classes.
func (c *cluster) newAdmission() (*priority.Plugin, error) {
	factory := informers.NewSharedInformerFactory(nil, 0)
	plugin := priority.NewPlugin()
	plugin.SetExternalKubeInformerFactory(factory)
	indexer := factory.Scheduling().V1().PriorityClasses().Informer().GetIndexer()
	for _, class := range schedulinghelpers.SystemPriorityClasses() {
		if err := indexer.Add(class); err != nil {
			return nil, err
		}
	}
	for _, class := range c.objects[reflect.TypeFor[*schedulingv1.PriorityClass]()] {
		if err := indexer.Add(class); err != nil {
			return nil, err
		}
	}
	return plugin, nil
}

// create does to a pod what the API server does on POST. Status is kept: an assigned pod has one.
func create(draft *corev1.Pod, admit *priority.Plugin, number int) (*corev1.Pod, error) {
	ctx := context.Background()
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(draft, internal, nil); err != nil {
		return nil, err
	}
	podregistry.Strategy.PrepareForCreate(ctx, internal)
	attributes := admission.NewAttributesRecord(
		internal, nil, corev1.SchemeGroupVersion.WithKind("Pod"), internal.Namespace, internal.Name,
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create,
		&metav1.CreateOptions{}, false, nil,
	)
	if err := admit.Admit(ctx, attributes, nil); err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := legacyscheme.Scheme.Convert(internal, pod, nil); err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(draft.Status, corev1.PodStatus{Phase: corev1.PodPending}) {
		pod.Status = draft.Status
	}
	if pod.UID == "" {
		pod.UID = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", number))
	}
	return pod, nil
}

// sortPods puts each pod where kube-scheduler's cache and queue would have it.
func (c *cluster) sortPods(pods []*corev1.Pod) {
	names := map[string]bool{}
	for _, node := range c.nodes {
		names[node.Name] = true
	}
	for _, pod := range pods {
		// Its watch asks for no others.
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		c.add(pod)
		switch {
		case pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != "":
			c.nominated = append(c.nominated, pod)
		case names[pod.Spec.NodeName]:
			c.placed = append(c.placed, pod)
		}
	}
	for _, pod := range c.asked {
		c.add(pod)
	}
}

// addNamespaces makes those that the pods live in, unless the case has them: no pod is without.
func (c *cluster) addNamespaces() {
	known := map[string]bool{}
	for _, object := range c.objects[reflect.TypeFor[*corev1.Namespace]()] {
		known[object.(*corev1.Namespace).Name] = true
	}
	for _, object := range c.objects[reflect.TypeFor[*corev1.Pod]()] {
		name := object.(*corev1.Pod).Namespace
		if known[name] {
			continue
		}
		known[name] = true
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		legacyscheme.Scheme.Default(namespace)
		c.add(namespace)
	}
}

func (c *cluster) add(object any) {
	kind := reflect.TypeOf(object)
	c.objects[kind] = append(c.objects[kind], object)
}
