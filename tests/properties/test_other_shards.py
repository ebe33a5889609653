"""Rules of several nodes over several shards: with the counts of the others, each shard refuses and
attracts as one table with all nodes would.
"""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.model.objects import HOSTNAME, Node
from shared.model.pod_rules.rule_counts import SignatureCounts, added
from shared.scheduling.cycle.inter_pod_rules import counted, know_others, rules_of
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.table import NodeTable
from tests.properties.test_inter_pod_rules import ZONES, spec

SHARDS = 3


def table_of(nodes, specs):
    table = NodeTable(7)
    table.set_nodes(list(nodes), list(nodes.values()))
    sigs = [Signature(table, at, one) for at, one in enumerate(specs, start=1)]
    for sig in sigs:
        table.counters.add(sig)
    return table, sigs


def charge(table, sigs, pods):
    for at, node in pods:
        row = table.row_of(node)
        if row is not None:
            table.charge(sigs[at], np.array([row]), None, 1)


def refused(table, sig):
    """Return the refusals of each node, and how much pods attract to it."""
    rules = rules_of(table, sig)
    found: dict[int, tuple[list[str], int]] = {node: ([], 0) for node in table.ids.tolist()}
    if rules is None:
        return found
    counts = table.counters.now()
    refusals = list(rules.refusals(counts))
    pull = sum((one.weight * one.by_node(counts) for one in rules.affinity.scored), 0)
    pull = np.broadcast_to(pull, table.size)
    for row, node in enumerate(table.ids.tolist()):
        found[node] = [one.message for one in refusals if one.refused[row]], int(pull[row])
    return found


def with_more_spread(draw, one):
    """Return the spec with this, and perhaps a second constraint: nodes need both labels."""
    spread = tuple(replace(each, min_domains=draw.randint(1, 4)) for each in one.spread)
    if spread and draw.random() < 0.5:
        spread = (*spread, replace(spread[0], topology_key=draw.choice(("zone", HOSTNAME))))
    return replace(one, spread=spread)


@settings(max_examples=300)
@given(st.integers(0, 1 << 30))
def test_shards_with_the_counts_of_the_others_refuse_as_one_table(seed):
    draw = Random(seed)
    labels = lambda at: ((HOSTNAME, f"h{at}"), ("zone", draw.choice(ZONES)))  # noqa: E731
    nodes = {
        at: Node(
            uid=f"u{at}",
            name=f"node-{at}",
            allocatable=(("cpu", 4000), ("memory", 1 << 33), ("pods", 12)),
            labels={key: value for key, value in labels(at) if draw.random() < 0.9},
        )
        for at in range(1, draw.randint(2, 12))
    }
    specs = list(dict.fromkeys(with_more_spread(draw, spec(draw, HOSTNAME)) for _ in range(8)))
    pods = [
        (draw.randrange(len(specs)), draw.choice(list(nodes))) for _ in range(draw.randint(0, 25))
    ]
    shard_of = {node: draw.randrange(SHARDS) for node in nodes}
    whole, sigs = table_of(nodes, specs)
    charge(whole, sigs, pods)
    shards = []
    for shard in range(SHARDS):
        own = {at: node for at, node in nodes.items() if shard_of[at] == shard}
        table, own_sigs = table_of(own, specs)
        charge(table, own_sigs, pods)
        shards.append((table, own_sigs))
    for at, sig in enumerate(sigs):
        counts = [(SignatureCounts(sig.sig_id, counted(table, own[at])),) for table, own in shards]
        expected = refused(whole, sig)
        for shard, (table, own) in enumerate(shards):
            others = added(one for other, one in enumerate(counts) if other != shard)
            know_others(own[at], [count for one in others for count in one.counts])
            # What is known of others is no part of what a shard counts itself.
            assert (SignatureCounts(sig.sig_id, counted(table, own[at])),) == counts[shard]
            found = refused(table, own[at])
            assert found == {node: expected[node] for node in found}, sig.spec
