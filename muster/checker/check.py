"""The checker's front door: one epoch's journals and the cluster's history in, violations out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from muster.checker import binds, gangs, ledger, posts, preemptions, truth, waiting
from muster.checker.books import Ledger
from muster.checker.facts import Facts, gather
from muster.checker.history import ClusterHistory
from muster.checker.journals import Journal, Problem, read_all
from muster.checker.story import story
from shared.model.ids import BINDING, INGEST, PERMIT, PREEMPTION, QUEUEING, placement

STORIES_MAX = 5


@dataclass
class Report:
    """What was found, and the books it was found with."""

    problems: list[Problem]
    journals: dict[str, Journal]
    facts: Facts
    binds: binds.Binds
    gangs: gangs.Gangs
    preemptions: preemptions.Preemptions
    shards: list[Ledger] = field(default_factory=list)

    def tell(self, history: ClusterHistory) -> list[str]:
        """The violations, and the story of each pod that the first ones name."""
        lines = [f"VIOLATION {rule}: {text}" for rule, text in self.problems]
        told: set[int] = set()
        for _rule, text in self.problems:
            words = text.replace(":", " ").replace(",", " ").split()
            for before, word in pairwise(words):
                if before in ("pod", "member", "victim") and word.isdigit():
                    told.add(int(word))
        for pod in sorted(told)[:STORIES_MAX]:
            lines.append(f"-- story of {self.facts.label(pod)}")
            lines += [f"   {line}" for line in story(pod, self.journals, self.facts, history)]
        return lines


def check(
    records: Mapping[str, Sequence[bytes]],
    names: Mapping[str, str],
    placements: int,
    history: ClusterHistory,
    is_at_rest: bool,
    epoch: int = 1,
    landed_s: Mapping[str, Sequence[float]] | None = None,
) -> Report:
    """Judge one epoch. `names` maps stored journal names to plain ones; `is_at_rest` adds what
    must hold once nothing is in flight; `landed_s` says when each record became readable, where
    that is known. Journals must be whole (from position 0).
    """
    journals, problems = read_all(records, names)
    facts = gather(journals[INGEST])
    shards = [ledger.replay(journals[placement(shard)]) for shard in range(placements)]
    bound = binds.replay(journals[BINDING])
    grouped = gangs.replay(journals[PERMIT])
    preempted = preemptions.replay(journals[PREEMPTION], facts)
    preemptions.check_sent(journals[BINDING], preempted)
    if is_at_rest:
        for shard in shards:
            ledger.at_rest(shard)
        binds.at_rest(bound)
        gangs.at_rest(grouped)
        problems += truth.check(bound, grouped, facts, history, epoch)
        queue = waiting.replay(journals[QUEUEING])
        end = waiting.cluster_at_end(history, facts, _devices(shards))
        problems += waiting.check(queue, facts, history, end, grouped.committed)
    if landed_s is not None:
        stored = next(stored for stored, plain in names.items() if plain == BINDING)
        problems += posts.check(records[stored], landed_s[stored], facts, history, epoch)
    problems += [one for shard in shards for one in shard.problems]
    problems += bound.problems + grouped.problems + preempted.problems
    return Report(problems, journals, facts, bound, grouped, preempted, shards)


def _devices(shards: Sequence[Ledger]) -> dict[int, int]:
    found: dict[int, int] = {}
    for shard in shards:
        for load in shard.loads.values():
            found.update(load.devices)
    return found
