package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// At most so many configurations are kept ready; a run has few, and each costs some memory.
const maxSchedulers = 32

// schedulers keeps what is costly to build: one scheduler for each configuration.
type schedulers struct {
	ready map[string]*scheduler
}

func newSchedulers() *schedulers {
	return &schedulers{ready: map[string]*scheduler{}}
}

// of returns the scheduler for a configuration as the case gives it, or for the default.
func (s *schedulers) of(raw json.RawMessage) (*scheduler, error) {
	key := string(raw)
	if found := s.ready[key]; found != nil {
		return found, nil
	}
	settings, err := loadConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if len(s.ready) == maxSchedulers {
		for _, old := range s.ready {
			old.stop()
		}
		s.ready = map[string]*scheduler{}
	}
	found, err := newScheduler(settings)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	s.ready[key] = found
	return found, nil
}

// loadConfig decodes, defaults and checks a configuration as kube-scheduler does with --config.
func loadConfig(raw json.RawMessage) (*config.KubeSchedulerConfiguration, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return latest.Default()
	}
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	settings, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s", kind)
	}
	settings.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(settings); err != nil {
		return nil, err
	}
	return settings, nil
}

// scheduler is kube-scheduler's frameworks of one configuration, and the stores they read.
type scheduler struct {
	profiles profile.Map
	evicting map[string]*evicting
	informed informers.SharedInformerFactory
	// lister and nominator stay the same objects for the plugins; each case fills them anew.
	lister    *sharedLister
	nominator *nominator
	stop      context.CancelFunc
	// What a search that may end early starts from; samples is whether the case asks for it.
	percentage int32
	extenders  []fwk.Extender
	snapshot   *internalcache.Snapshot
	samples    bool
	start      int
}

// newScheduler builds frameworks as kube-scheduler's New does. No informer is ever started: the
// stores are filled directly, so nothing runs in the background and no case waits for it.
func newScheduler(settings *config.KubeSchedulerConfiguration) (*scheduler, error) {
	ctx, stop := context.WithCancel(context.Background())
	logger := klog.FromContext(ctx)
	// Nobody asks it anything: it is there because plugins and informers want one.
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		stop()
		return nil, err
	}
	one := &scheduler{
		informed:  newInformers(client),
		lister:    &sharedLister{},
		nominator: &nominator{},
		stop:      stop,
	}
	if settings.PercentageOfNodesToScore != nil {
		one.percentage = *settings.PercentageOfNodesToScore
	}
	one.extenders, err = buildExtenders(logger, settings.Extenders, settings.Profiles)
	if err != nil {
		stop()
		return nil, err
	}
	resources := one.informed.Resource().V1()
	slices, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{
		SliceInformer: resources.ResourceSlices(),
		KubeClient:    client,
	})
	if err != nil {
		stop()
		return nil, err
	}
	claims := assumecache.NewAssumeCache(
		logger, resources.ResourceClaims().Informer(), "ResourceClaim", "", nil,
	)
	csiNodes := one.informed.Storage().V1().CSINodes().Lister()
	options := append(withLister(one.lister),
		frameworkruntime.WithComponentConfigVersion(settings.APIVersion),
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(one.informed),
		frameworkruntime.WithSharedDRAManager(
			dynamicresources.NewDRAManager(ctx, claims, slices, one.informed),
		),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(csiNodes)),
		frameworkruntime.WithPodNominator(one.nominator),
		frameworkruntime.WithParallelism(1),
	)
	one.profiles, err = profile.NewMap(ctx, settings.Profiles, plugins.NewInTreeRegistry(),
		func(string) eventRecorder { return nil }, options...)
	if err != nil {
		stop()
		return nil, err
	}
	one.evicting = map[string]*evicting{}
	for name, runner := range one.profiles {
		if one.evicting[name], err = newEvicting(ctx, runner, one.extenders); err != nil {
			stop()
			return nil, err
		}
	}
	return one, nil
}

// profileOf is the framework that would take the pod.
func (s *scheduler) profileOf(schedulerName string) (framework.Framework, error) {
	found, ok := s.profiles[schedulerName]
	if !ok {
		return nil, fmt.Errorf("profile not found for scheduler name %q", schedulerName)
	}
	return found, nil
}

// nominator knows the case's pods that wait for a node which is promised to them.
type nominator struct {
	fwk.PodNominator
	pods map[string][]fwk.PodInfo
}

func (n *nominator) NominatedPodsForNode(nodeName string) []fwk.PodInfo {
	return n.pods[nodeName]
}

// sharedLister is the snapshot of the case at hand.
type sharedLister struct {
	snapshotLister
}

// load replaces the former case by this one.
func (s *scheduler) load(c *cluster, start *int) error {
	if err := s.fillStores(c); err != nil {
		return err
	}
	s.nominator.pods = map[string][]fwk.PodInfo{}
	for _, pod := range c.nominated {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return err
		}
		node := pod.Status.NominatedNodeName
		s.nominator.pods[node] = append(s.nominator.pods[node], info)
	}
	order := caseOrder(c.nodes)
	s.samples, s.start = start != nil, 0
	if s.samples {
		var err error
		if order, err = treeOrder(c.nodes); err != nil {
			return err
		}
		s.start = *start
	}
	snapshot, err := newSnapshot(c, order)
	if err != nil {
		return err
	}
	s.snapshot, s.lister.snapshotLister = snapshot, snapshot
	return nil
}
