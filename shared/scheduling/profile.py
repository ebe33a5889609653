"""A profile made ready to run: the plugins for a pod, their order and weights.

The order of the filters only decides which reason is reported; devices, which kube-scheduler does
not know, come last. A total is at most 100 times all weights of a profile.
"""

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from shared.model.objects import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, PodSpec
from shared.model.preemption.post_filter import place_in
from shared.model.profile import DYNAMIC_RESOURCES, NARROW_MAX, Profile, Strategy
from shared.model.release import (
    DEFAULT_RELEASE,
    STORAGE_CAPACITY_SCORING,
    V1_35,
    V1_36,
    V1_37,
    VOLUME_LIMIT_SCALING,
    Release,
)
from shared.model.text import snake_case
from shared.scheduling.api.custom.plugin import Plugin, parts_of, registered
from shared.scheduling.api.custom.reserve import Reserving
from shared.scheduling.api.custom.steps import (
    CustomAmounts,
    CustomFilter,
    CustomPreFilter,
    CustomScore,
)
from shared.scheduling.api.plugin import LocalScore, StaticFilter, StaticScore
from shared.scheduling.plugins.balanced_allocation import BalancedAllocation, BalanceGain
from shared.scheduling.plugins.gpu_devices import GpuDevices, GpuModel
from shared.scheduling.plugins.image_locality import ImageLocality
from shared.scheduling.plugins.narrowed_nodes import NarrowedNodes, narrowings
from shared.scheduling.plugins.node_affinity import AddedAffinity, NodeAffinity
from shared.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from shared.scheduling.plugins.node_ports import NodePorts
from shared.scheduling.plugins.node_resources_fit import LeastAllocated, NodeResourcesFit
from shared.scheduling.plugins.resource_scores import (
    Balance,
    BalanceGained,
    Part,
    ResourceScore,
    Utilization,
)
from shared.scheduling.plugins.taint_toleration import TaintToleration
from shared.scheduling.table.layout import ALLOC, F64, INFEASIBLE, PERCENT, ROOM, USED, Mask, Totals
from shared.scheduling.table.selectors import matcher_of, sought

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature
    from shared.scheduling.table.table import NodeTable

FilterStep: TypeAlias = StaticFilter | NodePorts | NodeResourcesFit | str
"""A filter, or the name of a plugin of volumes or inter-pod rules (see inter_pod_rules.py)."""

VOLUMES = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
Number: TypeAlias = type[np.signedinteger[Any]]
INTER_POD_PLUGINS = ("PodTopologySpread", "InterPodAffinity")
PORTS = NodePorts()
GPU_MODEL = GpuModel()
GPU_DEVICES = GpuDevices()
LEAST_ALLOCATED = LeastAllocated()
BALANCED_ALLOCATION, BALANCE_GAIN = BalancedAllocation(), BalanceGain()
FIT, BALANCE = LEAST_ALLOCATED.name, BALANCED_ALLOCATION.name
LOCAL_SCORES: tuple[LocalScore, ...] = (LEAST_ALLOCATED, BALANCED_ALLOCATION)

assert 100 * NARROW_MAX + INFEASIBLE < 0, "no total may make a node that is refused look feasible"


class LocalTerm(NamedTuple):
    """One local score plugin of one signature."""

    name: str
    weight: int
    of: ResourceScore


class LocalScores:
    """The local scores of one signature if they are not the default ones."""

    def __init__(self, terms: Iterable[LocalTerm], least: int, number: Number) -> None:
        """`least` is the total of every node before scoring."""
        self.terms, self.least, self._number = tuple(terms), least, number

    def scores(self, cols: F64) -> Totals:
        """Return the weighted sums of gathered nodes, shape (m,), a new array."""
        total = np.full(cols.shape[1], self.least, np.int64)
        for term in self.terms:
            total += term.weight * term.of.scores(cols)
        return total.astype(self._number)

    def score(self, values: Sequence[float]) -> int:
        """Return the weighted sum of one node."""
        total = self.least
        for term in self.terms:
            total += term.weight * term.of.score(values)
        return total


class GainScores(LocalScores):
    """The local scores of one signature if they are the default ones since kube-scheduler 1.36."""

    def __init__(
        self, sig: "Signature", terms: Iterable[LocalTerm], least: int, number: Number
    ) -> None:
        """`terms` say the same, slower."""
        super().__init__(terms, least, number)
        self._sig = sig

    def scores(self, cols: F64) -> Totals:
        """Return the weighted sums of gathered nodes, shape (m,), a new array."""
        sig, whole = self._sig, bool(cols[ALLOC : ALLOC + 2].all())
        total = LEAST_ALLOCATED.scores(sig, cols, whole, within=False)
        if not sig.best_effort:
            total += BALANCE_GAIN.scores(sig, cols)
        return total

    def score(self, values: Sequence[float]) -> int:
        """Return the weighted sum of one node."""
        sig = self._sig
        total = LEAST_ALLOCATED.score(sig, values)
        return total if sig.best_effort else total + BALANCE_GAIN.score(sig, values)


class Plugins:
    """The plugins of one profile.

    `filters`: those that kube-scheduler has as well, in its order. `static_filters`: all that read
    objects only. `inter_pod_plugins`: the names of plugins of volumes and inter-pod rules.
    `scored`: scored resources besides cpu and memory. Totals are `number`s, 16 bits if those
    suffice. `is_default_locally`: local scores are LOCAL_SCORES.
    """

    def __init__(self, profile: Profile, release: Release = DEFAULT_RELEASE) -> None:
        """Compile a profile. `release`: the kube-scheduler whose formulas apply."""
        self.profile, self.release = profile, release
        self.number: Number = np.int16 if profile.is_narrow else np.int64
        self.total_bytes = np.dtype(self.number).itemsize
        self._image_locality = ImageLocality(
            counts_volumes=release.version >= V1_36, raises_most=release.version >= V1_37
        )
        self.images_of = self._image_locality.names
        self.custom = {one.name: registered(one) for one in profile.custom}
        self.pre_filters = tuple(
            CustomPreFilter(self.custom[one.name]) for one in profile.custom if one.rejects
        )
        self.reserving = tuple(Reserving(registered(one)) for one in profile.reserve)
        # kube-scheduler's own plugins are named there.
        self.post_filters: tuple[Plugin | str, ...] = tuple(
            registered(one) if one.sha256 else one.name for one in profile.post_filter
        )
        self.needs_drivers = release.has(VOLUME_LIMIT_SCALING)
        scores_storage = release.has(STORAGE_CAPACITY_SCORING)
        self.storage_weight = profile.weight("VolumeBinding") if scores_storage else 0
        self.sought = sought if release.version < V1_37 else matcher_of
        self.claims = place_in(release, profile.claims)
        self.fit = NodeResourcesFit(profile.ignored_resources, profile.ignored_groups)
        self.narrowings = narrowings(profile.names_nodes, profile.keeps_to_node)
        self.filters = self._filters()
        self.checks_ports = PORTS in self.filters
        others = NodePorts | NodeResourcesFit | str
        chosen = [one for one in self.filters if not isinstance(one, others)]
        self.inter_pod_plugins = tuple(one for one in self.filters if isinstance(one, str))
        self.static_filters: tuple[StaticFilter, ...] = (*chosen, GPU_MODEL)
        self.static_scores = self._static_scores()
        self._static_reads = self._read_by_static_plugins()
        self.fit_weight = profile.weight(FIT)
        self.balance_weight = profile.weight(BALANCE)
        self.scored = self._scored()
        # Without any score plugin or extender kube-scheduler gives every node 1.
        self.least = 0 if profile.scores or profile.has_extenders else 1
        self.by_amounts = tuple(self._by_amounts())
        is_default = _local_part(profile) == _local_part(Profile()) and not self.by_amounts
        self.is_default_locally = is_default and release.version == V1_35
        self._gains = is_default and not self.least and release.version > V1_35

    def _filters(self) -> tuple[FilterStep, ...]:
        profile = self.profile
        affinity: list[FilterStep] = [NodeAffinity(profile.added_preferred)]
        if profile.added_required is not None:
            affinity.insert(0, AddedAffinity(profile.added_required))
        known: dict[str, Sequence[FilterStep]] = {
            "NodeAffinity": affinity,
            "NodePorts": [PORTS],
            "NodeResourcesFit": [self.fit],
            "NodeDeclaredFeatures": [NodeDeclaredFeatures(self.release)],
            **{name: [name] for name in (*VOLUMES, *INTER_POD_PLUGINS, DYNAMIC_RESOURCES)},
            **{name: [CustomFilter(plugin)] for name, plugin in self.custom.items()},
        }
        found: list[FilterStep] = [*self.narrowings]
        found.extend(self.pre_filters)
        for name in profile.filters:
            found.extend(known[name] if name in known else [_static_filter(name)])
        assert self.fit in found, f"profile {profile.name} does not look at amounts"
        return tuple(found)

    def _static_scores(self) -> tuple[tuple[StaticScore, int], ...]:
        profile = self.profile
        plugins: tuple[StaticScore, ...] = (
            TaintToleration(),
            NodeAffinity(profile.added_preferred),
            self._image_locality,
            *(CustomScore(plugin) for plugin in self.custom.values() if not plugin.amounts),
        )
        weighed = [(plugin, profile.weight(plugin.name)) for plugin in plugins]
        return tuple((plugin, weight) for plugin, weight in weighed if weight)

    def _by_amounts(self) -> Iterator[tuple[Plugin, int]]:
        """Yield users' plugins that score by amounts, with their weights."""
        for name, plugin in self.custom.items():
            weight = self.profile.weight(name)
            if plugin.amounts and weight:
                yield plugin, weight

    def narrowing(self, spec: PodSpec) -> NarrowedNodes | None:
        """Return what PreFilter leaves out; None unless the pod names the nodes it is tried on."""
        return next((one for one in self.narrowings if one.narrows(spec)), None)

    def left_out(self, table: "NodeTable", spec: PodSpec) -> Mask | None:
        """Return the nodes that PreFilter leaves out, or None."""
        found = self.narrowing(spec)
        return None if found is None else found.refuses(table, spec)

    def _read_by_static_plugins(self) -> tuple[str, ...]:
        """Return the fields of a PodSpec that static plugins read. Images are left to the cache:
        they rarely matter.
        """
        reads = [plugin.reads for plugin in self.static_filters]
        scores = (plugin for plugin, _ in self.static_scores if plugin is not self._image_locality)
        reads.extend(plugin.reads for plugin in scores)
        return tuple(dict.fromkeys(chain.from_iterable(reads)))

    def domain_parts(self, table: "NodeTable", sig: "Signature") -> list[Part]:
        """Return the resources by which topology domains are scored: those of NodeResourcesFit's
        strategy.
        """
        return _parts(table, sig, self.profile.strategy.resources, real=False)

    def static_parts(self, spec: PodSpec) -> tuple[object, ...]:
        """Return the parts of a spec that static plugins read, without images: pods with equal
        parts share the plugins' answers.
        """
        spec_fields = tuple([getattr(spec, name) for name in self._static_reads])
        if not self.custom:
            return spec_fields
        return spec_fields, tuple(parts_of(spec, plugin.reads) for plugin in self.custom.values())

    def _scored(self) -> tuple[str, ...]:
        names = [name for name, _ in self.profile.strategy.resources] if self.fit_weight else []
        names += self.profile.balanced if self.balance_weight else ()
        asked = (one for one in self.post_filters if not isinstance(one, str))
        looking = (*self.custom.values(), *asked)
        names += (name for plugin in looking for name in plugin.amounts)
        others = (name for name in names if name not in (CPU, MEMORY, PODS))
        return tuple(dict.fromkeys(others))

    def local_scores(self, table: "NodeTable", sig: "Signature") -> LocalScores:
        """Return the signature's local scores."""
        terms = []
        if self.fit_weight:
            parts = _parts(table, sig, self.profile.strategy.resources, real=False)
            scored: ResourceScore = Utilization(self.profile.strategy, parts)
            terms.append(LocalTerm(FIT, self.fit_weight, scored))
        if self.balance_weight:
            resources = [(name, 1) for name in self.profile.balanced]
            parts = _parts(table, sig, resources, real=True)
            balance = Balance if self.release.version == V1_35 else BalanceGained
            # Pods that request none of the resources are skipped.
            if any(part.ask for part in parts):
                terms.append(LocalTerm(BALANCE, self.balance_weight, balance(parts)))
            elif BALANCE in self.profile.always_scored:
                terms.append(LocalTerm(BALANCE, self.balance_weight, Utilization(Strategy(), ())))
        for plugin, weight in self.by_amounts:
            if CustomAmounts.applies(plugin, sig.spec) or plugin.name in self.profile.always_scored:
                score = CustomAmounts(plugin, table, sig.spec)
                terms.append(LocalTerm(plugin.name, weight, score))
        if self._gains:
            return GainScores(sig, terms, self.least, self.number)
        return LocalScores(terms, self.least, self.number)


def _static_filter(name: str) -> StaticFilter:
    """Return the filter of a plugin that reads objects only: the class of its name, in the module
    of its name in lower case: NodeName in node_name.py.
    """
    module = import_module(f"shared.scheduling.plugins.{snake_case(name)}")
    found: StaticFilter = getattr(module, name)()
    return found


def _local_part(profile: Profile) -> tuple[object, ...]:
    """Return the part of a profile that decides local scores."""
    weights = profile.weight(FIT), profile.weight(BALANCE)
    always = BALANCE in profile.always_scored
    return *weights, profile.strategy, profile.balanced, always


def _parts(
    table: "NodeTable", sig: "Signature", resources: Iterable[tuple[str, int]], *, real: bool
) -> list[Part]:
    """Return the resources that count for the pod: `real` requests, or those of its containers
    alone, with defaults for cpu and memory without requests.
    """
    found = []
    pairs = {CPU: (0, sig.cpu, sig.room_cpu), MEMORY: (1, sig.memory, sig.room_memory)}
    for name, weight in resources:
        if name in pairs:
            at, ask, room = pairs[name]
            if real:
                found.append(Part(ALLOC + at, USED + at, False, ask, weight))
            else:
                found.append(Part(ALLOC + at, ROOM + at, True, room / PERCENT, weight))
        elif name in table.scored:
            have, used = table.scored[name]
            ask = sig.scored_amount(name) if real else sig.asked_amount(name)
            # Resources other than these count only for pods that ask for them.
            if ask or name == EPHEMERAL_STORAGE:
                found.append(Part(have, used, False, ask, weight))
    return found


DEFAULT = Plugins(Profile())
