"""Fluent builders in the manner of kube-scheduler's `st.MakePod()`.

`make_pod` and `make_node` build objects as the Kubernetes API has them, with quantities as
strings. `model_node` and `model_spec` build the product's own values, with integers: cpu in
milli-cores, memory in bytes. Each method returns the builder, and `obj()` the finished object:

    make_pod("web").requests(cpu="1").labels(app="web").node("n1").obj()
    model_node("n1").capacity(cpu=4_000, memory=8 << 30, pods=110).obj()
"""

from typing import Any, Self

from shared.model.objects import Node, PodSpec

HOSTNAME = "kubernetes.io/hostname"


class _ObjectBuilder:
    """What pods and nodes of the API have in common."""

    def __init__(self, kind: str, name: str) -> None:
        self._object: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {},
        }

    def metadata(self, **fields: Any) -> Self:
        """Set fields of the metadata under their API names."""
        self._object["metadata"] |= fields
        return self

    def labels(self, labels: dict[str, str] | None = None, **more: str) -> Self:
        """Add labels; a dict takes keys that are no Python names."""
        self._object["metadata"].setdefault("labels", {}).update(labels or {}, **more)
        return self

    def spec(self, **fields: Any) -> Self:
        """Set fields of the spec under their API names."""
        self._object["spec"] |= fields
        return self

    def status(self, **fields: Any) -> Self:
        """Set fields of the status under their API names."""
        self._object.setdefault("status", {}).update(fields)
        return self

    def obj(self) -> dict[str, Any]:
        """Return the object."""
        return self._object


class PodBuilder(_ObjectBuilder):
    """A pod of the API with one container."""

    def __init__(self, name: str) -> None:
        super().__init__("Pod", name)
        self._container: dict[str, Any] = {"name": "c", "image": "i"}
        self.spec(containers=[self._container])

    def requests(self, requests: dict[str, str] | None = None, **more: str) -> Self:
        """Add requests of the container; a dict takes extended resources."""
        resources = self._container.setdefault("resources", {"requests": {}})
        resources["requests"].update(requests or {}, **more)
        return self

    def container(self, **fields: Any) -> Self:
        """Set fields of the container under their API names."""
        self._container.update(fields)
        return self

    def node(self, name: str) -> Self:
        """Assign the pod to a node; an empty name leaves it pending."""
        return self.spec(nodeName=name) if name else self


class NodeBuilder(_ObjectBuilder):
    """A node of the API."""

    def __init__(self, name: str) -> None:
        super().__init__("Node", name)

    def hostname(self) -> Self:
        """Label the node with its name, as a kubelet does."""
        return self.labels({HOSTNAME: self._object["metadata"]["name"]})

    def capacity(self, cpu: str, memory: str, pods: str = "110", **more: str) -> Self:
        """Set capacity and allocatable."""
        amounts = {"cpu": cpu, "memory": memory, "pods": pods, **more}
        return self.status(allocatable=amounts, capacity=dict(amounts))

    def ready(self) -> Self:
        """Report the node as Ready, for clusters where KWOK does not."""
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        return self.status(conditions=[condition])


class _ModelNodeBuilder:
    """A node as the scheduler sees it."""

    def __init__(self, name: str, uid: str) -> None:
        self._fields: dict[str, Any] = {"uid": uid or name, "name": name}

    def capacity(self, *, cpu: int, memory: int, pods: int = 110, **more: int) -> Self:
        """Set allocatable; a resource of 0 is left out."""
        amounts = {"cpu": cpu, "memory": memory, "pods": pods, **more}
        return self.fields(allocatable=tuple(sorted((k, v) for k, v in amounts.items() if v)))

    def labels(self, labels: dict[str, str] | None = None, **more: str) -> Self:
        """Add labels; a dict takes keys that are no Python names."""
        return self.fields(labels={**self._fields.get("labels", {}), **(labels or {}), **more})

    def fields(self, **fields: Any) -> Self:
        """Set other fields of `Node`."""
        self._fields |= fields
        return self

    def obj(self) -> Node:
        """Return the node."""
        return Node(**self._fields)


class _ModelSpecBuilder:
    """The scheduling-relevant part of a pod."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def requests(
        self, *, cpu: int | None = None, memory: int | None = None, **more: int | None
    ) -> Self:
        """Set requests; those for scores follow cpu and memory, or keep their defaults."""
        amounts = {"cpu": cpu, "memory": memory, **more}
        self.fields(requests=tuple(sorted((k, v) for k, v in amounts.items() if v is not None)))
        if cpu is not None:
            self.fields(nonzero_cpu_milli=cpu)
        if memory is not None:
            self.fields(nonzero_memory_bytes=memory)
        return self

    def fields(self, **fields: Any) -> Self:
        """Set other fields of `PodSpec`."""
        self._fields |= fields
        return self

    def obj(self) -> PodSpec:
        """Return the spec."""
        return PodSpec(**self._fields)


def make_pod(name: str) -> PodBuilder:
    """Return a builder of an API pod with one container and no requests."""
    return PodBuilder(name)


def make_node(name: str) -> NodeBuilder:
    """Return a builder of an API node without capacity."""
    return NodeBuilder(name)


def model_node(name: str, uid: str = "") -> _ModelNodeBuilder:
    """Return a builder of a `Node`; its uid is its name unless another is given."""
    return _ModelNodeBuilder(name, uid)


def model_spec() -> _ModelSpecBuilder:
    """Return a builder of a `PodSpec`."""
    return _ModelSpecBuilder()
