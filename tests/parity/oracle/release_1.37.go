//go:build kube1.37

package main

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

type snapshotLister = fwk.MutableSnapshotSharedLister

// withLister gives plugins one lister for both of their interfaces: preemption asks the one that
// may change it.
func withLister(lister *sharedLister) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(lister),
		frameworkruntime.WithMutableSnapshotLister(lister),
	}
}

func newCache(ctx context.Context) internalcache.Cache {
	return internalcache.New(ctx, nil, false, false)
}

func newInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	return kubescheduler.NewInformerFactory(client, 0, nil)
}
