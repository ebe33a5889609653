"""A view of a cluster to ask: objects of the API go in as the watches read them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.extender.view import ClusterView
from muster.extender.wire import (
    ExtenderArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    decoded,
    pod_in,
)
from services.ingest.core.config import Config
from shared.events.observed import (
    ListBegan,
    ListEnded,
    PodsDeletedSeen,
    WatchAdvanced,
    WorldOpened,
)
from shared.kubernetes.objects.structs import RawPod
from shared.kubernetes.watching.pod_groups import Groups
from shared.kubernetes.watching.pods import Pods
from shared.kubernetes.watching.refused_pods import Refusals
from shared.kubernetes.watching.resources import PodReader, Reader, node_reader
from shared.model.profile import Profile
from tests.support.builders import make_node, make_pod

MILLI = "muster.io/gpu-milli"
GPUS = "nvidia.com/gpu"


async def _never(*_asked: object) -> Any:
    raise AssertionError("nothing is written into conditions")


def node(name: str, cpu: str = "8", gpus: int = 0, **labels: str) -> dict[str, Any]:
    more = {GPUS: str(gpus)} if gpus else {}
    built = make_node(name).hostname().labels(labels).metadata(uid=f"uid-{name}")
    return built.capacity(cpu, "64Gi", **more).ready().obj()


def pod(
    name: str, cpu: str = "1", milli: int = 0, revision: int = 0, **spec: Any
) -> dict[str, Any]:
    """A pod of kube-scheduler; `milli` of a GPU."""
    built = make_pod(name).requests(cpu=cpu).labels(app="test")
    if milli:
        built.requests({MILLI: str(milli)})
    metadata = {"namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(revision)}
    built.metadata(**metadata).spec(**{"schedulerName": "default-scheduler", **spec})
    return built.obj()


def new_view(profiles: tuple[Profile, ...] = ()) -> ClusterView:
    options = {"ingest": msgspec.to_builtins(Config(default_spread=True, volumes=True))}
    options["placement"] = {"profiles": msgspec.to_builtins(profiles)}
    return ClusterView(options, profiles)


class World:
    """A view and what its watches show."""

    def __init__(self, *objects: Mapping[str, Any], profiles: tuple[Profile, ...] = ()) -> None:
        self.view = new_view(profiles)
        self.view.observe([WorldOpened("cluster")], 0)
        self.revision = 10
        nodes = node_reader()
        pods = PodReader(Pods(frozenset({""}), Groups(), Refusals(_never)))
        self.readers: dict[str, Reader] = {"Node": nodes, "Pod": pods}
        for one in objects:
            self.shows(one)

    def shows(self, item: Mapping[str, Any]) -> None:
        """Let the watch show an object, at a new revision."""
        self.revision += 1
        meta = {**item["metadata"], "resourceVersion": str(self.revision)}
        reader = self.readers[item["kind"]]
        raw = msgspec.json.encode({**item, "metadata": meta})
        reader.seen(msgspec.json.decode(raw, type=reader.item))
        self.view.observe(reader.drain(), 0)

    def lists_pods(self) -> None:
        """Let a list show no pods."""
        self.revision += 1
        began = ListBegan("pods", self.revision)
        self.view.observe([began, ListEnded("pods", 0), WatchAdvanced(self.revision)], 0)

    def deletes(self, name: str) -> None:
        self.view.observe([PodsDeletedSeen(f"uid-{name}")], 0)

    def raw(self, asked: Mapping[str, Any]) -> RawPod:
        return pod_in(msgspec.Raw(msgspec.json.encode(asked)))


def args(asked: Mapping[str, Any], *names: str) -> ExtenderArgs:
    """The question about nodes by name."""
    return decoded(msgspec.json.encode({"Pod": asked, "NodeNames": names}), ExtenderArgs)


def preemption(asked: Mapping[str, Any], **victims: list[str]) -> ExtenderPreemptionArgs:
    """The question about victims by node."""
    named = {
        name: {"Pods": [{"UID": f"uid-{one}"} for one in pods], "NumPDBViolations": 0}
        for name, pods in victims.items()
    }
    body = msgspec.json.encode({"Pod": asked, "NodeNameToMetaVictims": named})
    return decoded(body, ExtenderPreemptionArgs)


def reasons(result: ExtenderFilterResult) -> dict[str, str]:
    """Why nodes fail, whether preemption could help or not."""
    return {**result.FailedNodes, **result.FailedAndUnresolvableNodes}
