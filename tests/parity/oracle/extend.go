package main

import (
	"context"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Three of kube-scheduler's own functions around extenders, which it calls nowhere else.

//go:linkname buildExtenders k8s.io/kubernetes/pkg/scheduler.buildExtenders
func buildExtenders(
	logger klog.Logger, extenders []config.Extender, profiles []config.KubeSchedulerProfile,
) ([]fwk.Extender, error)

//go:linkname findNodesThatPassExtenders k8s.io/kubernetes/pkg/scheduler.findNodesThatPassExtenders
func findNodesThatPassExtenders(
	ctx context.Context, extenders []fwk.Extender, pod *corev1.Pod, feasible []fwk.NodeInfo,
	statuses *framework.NodeToStatus,
) ([]fwk.NodeInfo, error)

//go:linkname prioritizeNodes k8s.io/kubernetes/pkg/scheduler.prioritizeNodes
func prioritizeNodes(
	ctx context.Context, extenders []fwk.Extender, runner framework.Framework,
	state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) ([]fwk.NodePluginScores, error)
