"""Static plugins declare the fields of a pod that they read: pods with equal fields share the
answer.
"""

from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest

from shared.model.images import packed
from shared.model.objects import (
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    GpuRequest,
    PodSpec,
    PreferredTerm,
    Requirement,
    SelectorTerm,
    Taint,
)
from shared.model.profile import PLUGINS, Profile
from shared.model.release import VERSIONS, release
from shared.scheduling import plugins as package
from shared.scheduling.cycle.score_classes import static_of
from shared.scheduling.profile import Plugins
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.table import NodeTable
from tests.unit.scheduling.tables import node, spec, table_of

TERM = SelectorTerm(labels=(Requirement("disk", "In", ("ssd",)),))
POD = spec(
    node_selector=(("disk", "ssd"),),
    affinity_required=(TERM,),
    affinity_preferred=(PreferredTerm(7, TERM),),
    gpu=GpuRequest(milli=1000, models=("a100",)),
    images=("web",),
)


class Seen:
    """A spec that records which of its fields are read."""

    def __init__(self, of: PodSpec) -> None:
        self.of = of
        self.fields: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.fields.add(name)
        return getattr(self.of, name)


def table() -> NodeTable:
    """Return nodes on which every static plugin must read the pod."""
    taints = (Taint("a", "", NO_SCHEDULE), Taint("b", "", PREFER_NO_SCHEDULE))
    return table_of(
        node(
            1,
            taints=taints,
            unschedulable=True,
            labels={"disk": "ssd"},
            images=packed([("web", 5)]),
        ),
        node(2),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_static_plugin_reads_what_it_declares_and_nothing_else(version):
    plugins = Plugins(Profile(added_required=(TERM,)), release(version, {}))
    asked: list[Any] = [*plugins.static_filters]
    asked += [plugin for plugin, _ in plugins.static_scores]
    for plugin in asked:
        seen: Any = Seen(POD)
        for ask in ("refuses", "raw"):
            if hasattr(plugin, ask):
                getattr(plugin, ask)(table(), seen)
        if hasattr(plugin, "applies"):
            plugin.applies(seen)
        assert seen.fields <= set(plugin.reads), type(plugin)


NAMES = [one.name for one in walk_packages(package.__path__, f"{package.__name__}.")]


class LowPriorityOnly:
    """A new plugin of the product."""

    name = "LowPriorityOnly"
    message = "node(s) were for pods of low priority"
    reads: tuple[str, ...] = ("priority",)

    def refuses(self, nodes: NodeTable, pod: PodSpec) -> Mask | None:
        return np.full(nodes.size, pod.priority > 0)


def test_pods_that_a_new_plugin_can_tell_apart_share_no_answer(monkeypatch):
    """The cache of static answers knew the fields that plugins read by a list of its own."""
    filters = Plugins._filters
    monkeypatch.setattr(Plugins, "_filters", lambda of: (*filters(of), LowPriorityOnly()))
    plugins, nodes = Plugins(Profile()), table_of(node(1), node(2))
    low, high = (static_of(nodes, spec(priority=value), plugins) for value in (0, 5))
    assert low.ok is None or low.ok.all()
    assert high.ok is not None
    assert not high.ok.any()


def test_every_static_filter_is_in_the_table_of_plugins():
    modules = [import_module(name) for name in NAMES]
    kinds = [kind for module in modules for kind in vars(module).values()]
    names = {kind.name for kind in kinds if hasattr(kind, "refuses") and hasattr(kind, "reads")}
    # It comes last in every profile: kube-scheduler lacks it.
    assert names - {"GpuDevices"} <= PLUGINS.keys(), "name it in PLUGINS in shared/model/profile.py"
