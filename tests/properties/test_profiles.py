"""Profiles: a batch equals single cycles, and a score of many nodes equals that of each alone."""

from collections.abc import Iterator
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from shared.model.objects import GPU, PodSpec, PreferredTerm
from shared.model.profile import (
    DEFAULT_FILTERS,
    STRATEGIES,
    CustomPlugin,
    Profile,
    Strategy,
)
from shared.model.release import VERSIONS, release
from shared.scheduling.api.custom.plugin import PLUGINS
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.node_scores import local_columns
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.plugins.resource_scores import Balance, Utilization
from shared.scheduling.profile import BALANCED_ALLOCATION, LEAST_ALLOCATED, Plugins
from shared.scheduling.table.table import NodeTable
from tests.properties.placement_world import Driver, decisions, wire
from tests.properties.test_kernel import SEED, a_node, a_spec, seeds, some_switches, switched, term
from tests.support.custom_plugins import KINDS, SHA256, Tainted, known

DONGLE = "example.com/dongle"
RESOURCES = ("cpu", "memory", "ephemeral-storage", DONGLE, GPU, "pods")
HEAVY = (1, 100, 1 << 25)
SCORES = ("TaintToleration", "NodeAffinity", "NodeResourcesFit", "NodeResourcesBalancedAllocation")


def a_strategy(random: Random) -> Strategy:
    kind = random.choice(STRATEGIES)
    names = random.sample(RESOURCES, random.randint(1, 4))
    at = sorted(random.sample(range(101), random.randint(1, 4)))
    shape = tuple((one, 10 * random.randint(0, 10)) for one in at)
    resources = tuple((name, random.choice([1, 2, 100])) for name in names)
    return Strategy(kind, resources, shape if kind == STRATEGIES[2] else ())


CUSTOM = tuple(CustomPlugin(one.__name__, SHA256, rejects=one is Tainted) for one in KINDS)


@pytest.fixture(autouse=True, scope="module")
def plugins_of_users() -> Iterator[None]:
    with known(*KINDS):
        yield


def a_profile(random: Random, name: str) -> Profile:
    weights = {one: random.choice([0, 1, 1, 2, 40]) for one in SCORES}
    off = random.sample(DEFAULT_FILTERS[:5], random.choice([0, 0, 1, 2]))
    off += ["NodePorts"] if random.random() < 0.3 else []
    filters = [one for one in DEFAULT_FILTERS if one not in off]
    own = random.sample(CUSTOM[:-1], random.choice([0, 1, 1, 2, 3]))
    own += CUSTOM[-1:] if random.random() < 0.1 else ()
    filters += [one.name for one in own if "filter" in PLUGINS[one.name].points]
    random.shuffle(filters)
    weights |= {one.name: random.choice([1, 3]) for one in own}
    if random.random() < 0.3:  # totals beyond 16 bits
        weights = {one: weight * random.choice(HEAVY) for one, weight in weights.items()}
    return Profile(
        name=name,
        filters=tuple(filters),
        scores=tuple((one, weight) for one, weight in weights.items() if weight),
        strategy=a_strategy(random) if random.random() < 0.7 else Strategy(),
        balanced=tuple(random.sample(RESOURCES, random.randint(1, 4))),
        ignored_resources=(DONGLE,) if random.random() < 0.2 else (),
        added_required=(term(random),) if random.random() < 0.1 else None,
        added_preferred=(PreferredTerm(7, term(random)),) if random.random() < 0.2 else (),
        custom=tuple(own),
    )


def a_table(random: Random) -> tuple[NodeTable, list[Signature]]:
    """Draw nodes of few kinds with pods of three profiles on them."""
    profiles = [
        Plugins(a_profile(random, name), release(version, {}))
        for name, version in zip("abc", VERSIONS, strict=True)
    ]
    kinds = [a_node(random, 0) for _ in range(random.randint(1, 3))]
    table = NodeTable(SEED)
    for plugins in profiles:
        table.score_resources(plugins.scored)
    nodes = []
    for number in range(random.randint(1, 9)):
        kind = random.choice(kinds)
        fields = {name: getattr(kind, name) for name in kind.__struct_fields__}
        storage = ("ephemeral-storage", random.choice([0, 10, 10, 1000]))
        fields["allocatable"] = tuple(sorted((*kind.allocatable, storage)))
        nodes.append(type(kind)(**{**fields, "uid": f"uid-{number}", "name": f"n{number}"}))
    table.set_nodes(range(1, len(nodes) + 1), nodes)
    sigs = [
        Signature(table, number, _with_storage(random, a_spec(random)), random.choice(profiles))
        for number in range(1, 5)
    ]
    return table, sigs


def _with_storage(random: Random, spec: PodSpec) -> PodSpec:
    if random.random() < 0.5:
        return spec
    fields = {name: getattr(spec, name) for name in spec.__struct_fields__}
    fields["requests"] = tuple(sorted((*spec.requests, ("ephemeral-storage", 3))))
    return PodSpec(**fields)


@settings(deadline=None, max_examples=300)
@given(seeds)
def test_a_batch_of_a_profile_equals_single_cycles(seed: int):
    random = Random(seed)
    table, sigs = a_table(random)
    kernel = Kernel()
    with switched(*some_switches(random)):
        for _ in range(6):
            sig, k = random.choice(sigs), random.choice([1, 2, 3, 8, 20])
            picks = kernel.place(table, sig, k)
            single = []
            for _ in range(k):
                one = Kernel().place_naive(table, sig)
                if not len(one.rows):
                    break
                single.append((int(one.rows[0]), int(one.totals[0]), int(one.masks[0])))
                table.charge(sig, one.rows, one.masks)
            found = zip(
                picks.rows.tolist(), picks.totals.tolist(), picks.masks.tolist(), strict=True
            )
            assert list(found) == single


@settings(deadline=None, max_examples=300)
@given(seeds)
def test_a_score_of_many_nodes_is_that_of_each(seed: int):
    random = Random(seed)
    table, sigs = a_table(random)
    kernel = Kernel()
    for sig in sigs:
        picks = kernel.place(table, sig, random.choice([1, 3, 9]))
        table.charge(sig, picks.rows, picks.masks)
    for sig in sigs:
        many = local_columns(sig, table.cols, table.whole).tolist()
        ports, sig.checked_ports = sig.checked_ports, ()  # arrays leave these to others
        assert many == [OneNode(table, row).local_score(sig) for row in range(table.size)]
        sig.checked_ports = ports


@settings(deadline=None, max_examples=200)
@given(seeds)
def test_general_scores_over_cpu_and_memory_equal_the_default_ones(seed: int):
    random = Random(seed)
    table, sigs = a_table(random)
    kernel = Kernel()
    # With a weight the same scores are made of parts.
    weighted = Plugins(
        Profile(scores=(("NodeResourcesFit", 2), ("NodeResourcesBalancedAllocation", 3)))
    )
    for one in sigs:
        picks = kernel.place(table, one, random.choice([1, 3, 9]))
        table.charge(one, picks.rows, picks.masks)
        twin = Signature(table, 9, one.spec, weighted)
        assert twin.scores is not None
        least, *balanced = twin.scores.terms
        assert isinstance(least.of, Utilization)
        expected = LEAST_ALLOCATED.scores(twin, table.cols, table.whole, False)
        assert np.array_equal(least.of.scores(table.cols), expected)
        assert bool(balanced) != twin.best_effort
        for term_of in balanced:
            assert isinstance(term_of.of, Balance)
            expected = BALANCED_ALLOCATION.scores(twin, table.cols, table.whole, False)
            assert np.array_equal(term_of.of.scores(table.cols), expected)


def _options(seed: int) -> list[object]:
    """Return options with a profile for the driver's pods; the driver applies all filters to every
    pod.
    """
    profile = a_profile(Random(seed), "default-scheduler")
    missing = (one for one in DEFAULT_FILTERS if one not in profile.filters)
    filters = (*profile.filters, *missing)
    found = msgspec.structs.replace(profile, ignored_resources=(), filters=filters)
    built: list[object] = msgspec.to_builtins([found])
    return built


@settings(deadline=None, max_examples=15)
@given(seeds)
def test_a_shard_with_a_profile_decides_the_same_without_batches_and_after_a_reload(seed: int):
    profiles = _options(seed)
    straight = Driver(seed, profiles=profiles).play(40)
    single = Driver(seed, profiles=profiles, batch=False).play(40)
    assert list(decisions(straight.log)) == list(decisions(single.log))
    reloaded = Driver(seed, reload_chance=0.3, profiles=profiles).play(40)
    assert straight.log == reloaded.log
    assert wire(straight.core.dump(straight.state)) == wire(reloaded.core.dump(reloaded.state))
