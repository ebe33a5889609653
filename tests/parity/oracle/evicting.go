package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// evicting is a framework whose API server agrees to everything, and only remembers it; with the
// PostFilter plugins that talk to this server. No pod of a case waits in Permit.
type evicting struct {
	framework.Framework
	extenders  []fwk.Extender
	client     kubernetes.Interface
	server     *writes
	preemption *defaultpreemption.DefaultPreemption
	plugins    map[string]fwk.PostFilterPlugin
}

func newEvicting(
	ctx context.Context, runner framework.Framework, extenders []fwk.Extender,
) (*evicting, error) {
	server := &writes{}
	client, err := kubernetes.NewForConfig(
		&rest.Config{Host: "http://127.0.0.1:1", Transport: server, QPS: -1},
	)
	if err != nil {
		return nil, err
	}
	one := &evicting{Framework: runner, extenders: extenders, client: client, server: server}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	args := config.DefaultPreemptionArgs{
		MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100,
	}
	if one.preemption, err = defaultpreemption.New(ctx, &args, one, features); err != nil {
		return nil, err
	}
	evaluator := one.preemption.Evaluator
	evaluator.PdbLister = budgetsByName{evaluator.PdbLister}
	claims, err := dynamicresources.New(ctx, &config.DynamicResourcesArgs{}, one, features)
	if err != nil {
		return nil, err
	}
	one.plugins = map[string]fwk.PostFilterPlugin{
		names.DefaultPreemption: one.preemption,
		names.DynamicResources:  claims.(fwk.PostFilterPlugin),
	}
	return one, nil
}

// ProfileName differs from the framework's: DynamicResources adds an index of this name.
func (e *evicting) ProfileName() string { return e.Framework.ProfileName() + " evicting" }

func (e *evicting) Extenders() []fwk.Extender { return e.extenders }

func (e *evicting) ClientSet() kubernetes.Interface { return e.client }

func (e *evicting) EventRecorder() eventRecorder { return &events.FakeRecorder{} }

func (e *evicting) GetWaitingPod(types.UID) fwk.WaitingPod { return nil }

// writes takes the place of the network.
type writes struct {
	mutex   sync.Mutex
	evicted []string
	patches map[string]json.RawMessage
}

// forget makes room for the writes of another pod.
func (w *writes) forget() {
	w.evicted, w.patches = []string{}, map[string]json.RawMessage{}
}

// RoundTrip takes one request; a path is /api/v1/namespaces/NAMESPACE/pods/NAME, with /status after
// it in patches.
func (w *writes) RoundTrip(request *http.Request) (*http.Response, error) {
	parts := strings.Split(request.URL.Path, "/")
	name := parts[4] + "/" + parts[6]
	w.mutex.Lock()
	defer w.mutex.Unlock()
	switch request.Method {
	case http.MethodDelete:
		w.evicted = append(w.evicted, name)
		slices.Sort(w.evicted) // they are deleted side by side
	case http.MethodPatch:
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		w.patches[name] = body
	}
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(strings.NewReader(`{"kind":"Pod","apiVersion":"v1"}`)),
		Request:    request,
	}, nil
}
