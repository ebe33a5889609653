"""Manifest objects, in a line each."""

from typing import Any

NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
}
API = {"Job": "batch/v1"}


def container(sidecar: Any = False, **requests: Any) -> dict[str, Any]:
    """A container with requests."""
    made: dict[str, Any] = {"name": "c", "resources": {"requests": requests}}
    return made | {"restartPolicy": "Always"} if sidecar else made


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """Return a pod, by default with one empty container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container()], **spec},
    }


def controller(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """Return a controller whose pods are labelled app=<name>."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    selector = {"selector": {"matchLabels": labels}} if kind not in API else {}
    return {
        "apiVersion": API.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": template, **selector, **spec},
    }


def priority_class(name: str, value: Any, **more: Any) -> dict[str, Any]:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }
