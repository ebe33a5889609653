"""Bugs in gangs with a topology: found by the checker in worlds with racks, or by the search."""

from tests.simulation.planted import Bug

IN_HYPER_NODES = (
    Bug(
        "nodes-of-a-changed-hyper-node-not-published",
        "services.ingest.core.other_objects",
        (
            "relabel(state, index_hyper_nodes(state, changes))",
            "index_hyper_nodes(state, changes[:-1])",
        ),
        by=("hyper-nodes",),
        first=(1,),
    ),
    Bug(
        "member-of-a-hyper-node-not-in-those-above",
        "shared.model.groups.hyper_nodes",
        ("while chain[-1].name in self.parents:", "while chain[-1].name in self.faults:"),
        by=("hyper-nodes",),
        first=(1,),
    ),
    Bug(
        "labels-of-relabelled-nodes-not-sorted",
        "services.ingest.core.hyper_nodes",
        ("labels=dict(sorted(labels.items()))", "labels=dict(labels)"),
        by=("replay",),
        first=(0,),
    ),
)
BY_THE_CHECKER = (
    Bug(
        "domain-ignored-in-the-hold",
        "services.placement.core.gangs.holds",
        ("None if domains is None else domains.within(event.domains[at])", "None"),
        by=("gang-domain",),
        first=(0, 1),
    ),
    Bug(
        "homes-ignored",
        "services.permit.core.domains",
        ("if any(home[:depth] != path for home in homes):", "if not homes.issuperset(homes):"),
        by=("gang-domain",),
        first=(0, 1),
    ),
    Bug(
        "sums-of-another-shard-forgotten-for-a-domain",
        "services.placement.core.placing.turns",
        (
            "return RulesCounted(state.shard, event.turn, counts)",
            "return RulesCounted(state.shard, event.turn, counts[:0] if event.levels else counts)",
        ),
        by=("inter-pod-rules",),
        first=(1, 3),
    ),
    Bug(
        "late-member-as-a-single-pod",
        "services.queueing.core.gangs.attempts",
        ("gang.committed = gang.topology is None", "gang.committed = True"),
        by=("gang-domain",),
        first=(0, 1),
    ),
    Bug(
        "bind-failure-makes-a-single-pod",
        "services.queueing.core.gangs.members",
        (
            "if gang is not None and not gang.committed:\n            single[part] = False",
            "if gang is not None and not gang.started:\n            single[part] = False",
        ),
        by=("gang-domain",),
        first=(17, 4),
    ),
    Bug(
        "running-members-not-counted-for-min-count",
        "services.queueing.core.gangs.members",
        ("return max(1, least(gang) - gang.running)", "return max(1, least(gang))"),
        by=("gang-whole",),
        first=(0, 1),
    ),
    Bug(
        "members-with-a-node-not-named",
        "services.queueing.core.gangs.member_lists",
        (
            "return pack(np.sort(np.concatenate((reserved, np.array(bound, np.int64)))))",
            'return b""',
        ),
        by=("gang-domain",),
        first=(0, 1),
    ),
    Bug(
        "reserved-members-not-named",
        "services.queueing.core.gangs.member_lists",
        ("np.concatenate((reserved, np.array(bound, np.int64)))", "np.array(bound, np.int64)"),
        by=("gang-domain",),
        first=(0, 1),
    ),
    Bug(
        "members-that-are-gone-still-run",
        "services.permit.core.state",
        ("                self.min_count += 1", "                pass"),
        by=("gang-whole",),
        first=(17, 5),
    ),
    Bug(
        "places-of-preemption-anywhere",
        "services.placement.core.gangs.places",
        ("within(event.domain) if event.levels else None", "within(()) if event.levels else None"),
        by=("gang-domain",),
        first=(0, 6),
    ),
)
BY_THE_SEARCH = (
    Bug(
        "narrow-level-not-preferred",
        "services.permit.core.domains",
        ("narrowest = max(", "narrowest = min("),
        first=(0,),
    ),
    Bug(
        "broadest-level-not-tried",
        "services.permit.core.domains",
        (
            "for depth in range(topology.lowest + 1, topology.highest, -1):",
            "for depth in range(topology.lowest + 1, topology.highest + 1, -1):",
        ),
        first=(12,),
    ),
    Bug(
        "one-place-too-few-offered",
        "shared.scheduling.cycle.kernel",
        ("np.maximum(fits, 0.0).astype(np.int64)", "np.maximum(fits - 1.0, 0.0).astype(np.int64)"),
        first=(9,),
    ),
    Bug(
        "rooms-of-other-domains-added",
        "shared.scheduling.table.level_domains",
        (
            "np.add.reduceat(column[self._rows], self._starts)",
            "np.add.reduceat(column, self._starts)",
        ),
        first=(92,),
    ),
    Bug(
        "spread-counts-all-nodes",
        "shared.scheduling.cycle.inter_pod_rules",
        ("return _rules_within(base, sig, table.within)", "return Rules(base, sig)"),
        first=(0,),
    ),
)
