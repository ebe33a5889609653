package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// podAnswer says how each node would fare for one pod.
type podAnswer struct {
	Namespace        string                `json:"namespace"`
	Name             string                `json:"name"`
	PreEnqueueStatus statusAnswer          `json:"preEnqueueStatus"`
	PreFilterStatus  statusAnswer          `json:"preFilterStatus"`
	Nodes            map[string]nodeAnswer `json:"nodes"`
}

type statusAnswer struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

type nodeAnswer struct {
	Feasible bool `json:"feasible"`
	statusAnswer
	// Score is normalised but not weighted.
	Score int64 `json:"score"`
	// Allocations are by claim.
	Allocations map[string]*resourcev1.AllocationResult `json:"allocations,omitempty"`
}

// plugin is the part of the framework that is asked.
type plugin interface {
	fwk.PreEnqueuePlugin
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ScorePlugin
	fwk.ReservePlugin
}

// handle gives the plugin what it asks for, and no more.
type handle struct {
	fwk.Handle
	client   kubernetes.Interface
	informed informers.SharedInformerFactory
	manager  fwk.SharedDRAManager
}

func (h *handle) ClientSet() kubernetes.Interface { return h.client }

func (h *handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informed }

func (h *handle) SharedDRAManager() fwk.SharedDRAManager { return h.manager }

func (h *handle) ProfileName() string { return "default-scheduler" }

// manager keeps the allocations that Reserve has decided on, as it writes none.
type manager struct {
	fwk.SharedDRAManager
	claims *claimTracker
}

func (m *manager) ResourceClaims() fwk.ResourceClaimTracker { return m.claims }

type claimTracker struct {
	fwk.ResourceClaimTracker
	pending map[types.UID]*resourcev1.AllocationResult
}

func (t *claimTracker) SignalClaimPendingAllocation(
	uid types.UID, claim *resourcev1.ResourceClaim,
) error {
	t.pending[uid] = claim.Status.Allocation
	return t.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim)
}

// claimSource feeds the claims of a case to the assume cache, as a synced informer does.
type claimSource struct {
	claims []*resourcev1.ResourceClaim
}

func (s claimSource) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	for _, claim := range s.claims {
		handler.OnAdd(claim, true)
	}
	return nil, nil
}

// cluster holds a case.
type cluster struct {
	nodes   []*corev1.Node
	classes []*resourcev1.DeviceClass
	slices  []*resourcev1.ResourceSlice
	claims  []*resourcev1.ResourceClaim
}

func read(all []json.RawMessage) (*cluster, error) {
	found := &cluster{}
	for number, raw := range all {
		object, err := decode(raw, number)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", number, err)
		}
		switch typed := object.(type) {
		case *corev1.Node:
			found.nodes = append(found.nodes, typed)
		case *resourcev1.DeviceClass:
			found.classes = append(found.classes, typed)
		case *resourcev1.ResourceSlice:
			found.slices = append(found.slices, typed)
		case *resourcev1.ResourceClaim:
			found.claims = append(found.claims, typed)
		}
	}
	return found, nil
}

// decode reads one object and fills in what the API server would.
func decode(raw []byte, number int) (runtime.Object, error) {
	object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(object)
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	switch object.(type) {
	case *corev1.Pod, *resourcev1.ResourceClaim:
		if accessor.GetNamespace() == "" {
			accessor.SetNamespace(metav1.NamespaceDefault)
		}
	}
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID(fmt.Sprintf("%T-%d", object, number)))
	}
	accessor.SetResourceVersion("1")
	return object, nil
}

// newPlugin is the plugin as kube-scheduler makes it, with the stores filled by the case.
func newPlugin(ctx context.Context, c *cluster) (plugin, *claimTracker, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		return nil, nil, err
	}
	informed := informers.NewSharedInformerFactory(client, 0)
	resources := informed.Resource().V1()
	for _, class := range c.classes {
		if err := resources.DeviceClasses().Informer().GetIndexer().Add(class); err != nil {
			return nil, nil, err
		}
	}
	for _, slice := range c.slices {
		if err := resources.ResourceSlices().Informer().GetIndexer().Add(slice); err != nil {
			return nil, nil, err
		}
	}
	slices, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{
		SliceInformer: resources.ResourceSlices(),
		KubeClient:    client,
	})
	if err != nil {
		return nil, nil, err
	}
	claims := assumecache.NewAssumeCache(
		klog.FromContext(ctx), claimSource{c.claims}, "ResourceClaim", "", nil,
	)
	shared := dynamicresources.NewDRAManager(ctx, claims, slices, informed)
	tracker := &claimTracker{ResourceClaimTracker: shared.ResourceClaims()}
	given := &handle{client: client, informed: informed, manager: &manager{shared, tracker}}
	made, err := dynamicresources.New(
		ctx, &config.DynamicResourcesArgs{}, given,
		feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate),
	)
	if err != nil {
		return nil, nil, err
	}
	return made.(plugin), tracker, nil
}

func decidePods(one testCase) ([]podAnswer, error) {
	ctx := context.Background()
	found, err := read(one.Objects)
	if err != nil {
		return nil, err
	}
	asked, tracker, err := newPlugin(ctx, found)
	if err != nil {
		return nil, err
	}
	answers := make([]podAnswer, 0, len(one.Pods))
	for number, raw := range one.Pods {
		object, err := decode(raw, number)
		if err != nil {
			return nil, fmt.Errorf("pods[%d]: %w", number, err)
		}
		answers = append(answers, decidePod(ctx, asked, tracker, found, object.(*corev1.Pod)))
	}
	return answers, nil
}

func decidePod(
	ctx context.Context, asked plugin, tracker *claimTracker, found *cluster, pod *corev1.Pod,
) podAnswer {
	result := podAnswer{
		Namespace:        pod.Namespace,
		Name:             pod.Name,
		PreEnqueueStatus: newStatus(asked.PreEnqueue(ctx, pod)),
		PreFilterStatus:  newStatus(nil),
		Nodes:            map[string]nodeAnswer{},
	}
	state := framework.NewCycleState()
	_, status := asked.PreFilter(ctx, state, pod, nil)
	result.PreFilterStatus = newStatus(status)
	if !status.IsSuccess() {
		return result
	}
	var scores fwk.NodeScoreList
	for _, node := range found.nodes {
		info := framework.NewNodeInfo()
		info.SetNode(node)
		status := asked.Filter(ctx, state, pod, info)
		answered := nodeAnswer{Feasible: status.IsSuccess(), statusAnswer: newStatus(status)}
		if answered.Feasible {
			raw, status := asked.Score(ctx, state, pod, info)
			if !status.IsSuccess() {
				answered.statusAnswer = newStatus(status)
			}
			scores = append(scores, fwk.NodeScore{Name: node.Name, Score: raw})
		}
		result.Nodes[node.Name] = answered
	}
	asked.ScoreExtensions().NormalizeScore(ctx, state, pod, scores)
	for _, one := range scores {
		answered := result.Nodes[one.Name]
		answered.Score = one.Score
		answered.Allocations = reserve(ctx, asked, tracker, found, state, pod, one.Name)
		result.Nodes[one.Name] = answered
	}
	return result
}

// reserve returns what Reserve would allocate on the node, by claim, and takes it back.
func reserve(
	ctx context.Context, asked plugin, tracker *claimTracker, found *cluster,
	state fwk.CycleState, pod *corev1.Pod, node string,
) map[string]*resourcev1.AllocationResult {
	allocations := map[string]*resourcev1.AllocationResult{}
	tracker.pending = map[types.UID]*resourcev1.AllocationResult{}
	if status := asked.Reserve(ctx, state, pod, node); !status.IsSuccess() {
		panic(status.AsError())
	}
	for _, claim := range found.claims {
		if pending := tracker.pending[claim.UID]; pending != nil {
			allocations[claim.Namespace+"/"+claim.Name] = pending
		}
	}
	asked.Unreserve(ctx, state, pod, node)
	return allocations
}

func newStatus(status *fwk.Status) statusAnswer {
	if status == nil {
		return statusAnswer{Code: fwk.Success.String(), Reasons: []string{}}
	}
	return statusAnswer{
		Code: status.Code().String(), Reasons: append([]string{}, status.Reasons()...),
	}
}
