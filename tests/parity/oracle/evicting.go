package main

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// evicting is a framework whose API server agrees to everything, and only remembers it. No pod of
// a case waits in Permit.
type evicting struct {
	framework.Framework
	extenders []fwk.Extender
	client kubernetes.Interface
	server *writes
}

func newEvicting(runner framework.Framework, extenders []fwk.Extender) (*evicting, error) {
	server := &writes{evicted: []string{}, patches: map[string]json.RawMessage{}}
	client, err := kubernetes.NewForConfig(
		&rest.Config{Host: "http://127.0.0.1:1", Transport: server, QPS: -1},
	)
	return &evicting{runner, extenders, client, server}, err
}

func (e *evicting) Extenders() []fwk.Extender { return e.extenders }

func (e *evicting) ClientSet() kubernetes.Interface { return e.client }

func (e *evicting) EventRecorder() events.EventRecorder { return &events.FakeRecorder{} }

func (e *evicting) GetWaitingPod(types.UID) fwk.WaitingPod { return nil }

// writes takes the place of the network.
type writes struct {
	mutex   sync.Mutex
	evicted []string
	patches map[string]json.RawMessage
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
