//go:build kube1.36

package main

import (
	"context"

	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
)

func newCache(ctx context.Context) internalcache.Cache { return internalcache.New(ctx, nil, false) }
