"""Small Kubernetes objects for tests and benches, and a wait for a condition."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tests.support.builders import make_node

T = TypeVar("T")
_POLL_S = 0.05
# Any name will do: nothing pulls it.
_IMAGE = "pause"


def node(
    name: str,
    *,
    cpu: str = "8",
    memory: str = "16Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    ready: bool = False,
) -> dict[str, Any]:
    """Return a node; `ready` sets its Ready condition, for clusters without KWOK."""
    builder = make_node(name).hostname().labels(dict(labels or {}))
    builder.capacity(cpu, memory, str(pods))
    return (builder.ready() if ready else builder).obj()


def pod_spec(*, cpu: str = "100m", memory: str = "64Mi", **spec: Any) -> dict[str, Any]:
    """Return a spec of one container with these requests; `spec` adds fields under their
    API names.
    """
    container = {
        "name": "main",
        "image": _IMAGE,
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    return {"containers": [container], **spec}


def pod(name: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod; see `pod_spec`."""
    metadata = {"name": name, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(**spec)}


def deployment(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    """A Deployment whose pods have the label app=NAME; see `pod_spec`."""
    return _workload("Deployment", "apps/v1", name, {"replicas": replicas}, spec)


def job(name: str, pods: int, **spec: Any) -> dict[str, Any]:
    """A Job of `pods` completions, all at once, with the label app=NAME; see `pod_spec`."""
    counts = {"completions": pods, "parallelism": pods}
    return _workload("Job", "batch/v1", name, counts, {"restartPolicy": "Never", **spec})


def _workload(
    kind: str, version: str, name: str, fields: dict[str, Any], spec: dict[str, Any]
) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(**spec)}
    body: dict[str, Any] = {**fields, "template": template}
    if kind != "Job":
        # A Job's selector is made by the API server, and may not be given.
        body["selector"] = {"matchLabels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": body}


def binding(
    name: str, node_name: str, *, uid: str | None = None, resource_version: str | None = None
) -> dict[str, Any]:
    """Return the body of a POST to pods/NAME/binding; uid and resourceVersion are preconditions."""
    metadata = {"name": name, "uid": uid, "resourceVersion": resource_version}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
    }


def eventually(check: Callable[[], T], what: str, *, timeout_s: float = 30.0) -> T:
    """Return the first true result of `check`. Raises AssertionError with the last one in
    the end.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}; last {found!r}"
        time.sleep(_POLL_S)
