"""The checker's entry point: takes one epoch's journals and the cluster's history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from muster.checker import (
    backoffs,
    binds,
    guarantees,
    identity,
    ledger,
    permit_rejections,
    posts,
    promises,
    quotas,
    truth,
    turns,
    waiting,
)
from muster.checker.books import Ledger
from muster.checker.filters import claims, volumes
from muster.checker.gangs import (
    attempts,
    below_minimum,
    composites,
    domains,
    growth,
    hyper_nodes,
    kept_places,
    placed_members,
)
from muster.checker.inputs.facts import Facts, gather
from muster.checker.inputs.history import ClusterHistory
from muster.checker.inputs.journals import Journal, Problem, read_all
from muster.checker.inputs.story import story
from muster.checker.preemption import preemptions, reclaims, run_times
from shared.model.ids import BINDING, INGEST, PERMIT, PREEMPTION, QUEUEING, placement

STORIES_MAX = 5


@dataclass
class Report:
    """The violations found, with the books. The first `unsafe` problems are final; the others are
    only valid once the mesh is at rest.
    """

    problems: list[Problem]
    journals: dict[str, Journal]
    facts: Facts
    binds: binds.Binds
    gangs: attempts.Gangs
    preemptions: preemptions.Preemptions
    shards: list[Ledger] = field(default_factory=list)
    unsafe: int = 0

    def of_books(self) -> list[Problem]:
        """Return the violations found by replaying single journals."""
        shards = [problem for shard in self.shards for problem in shard.problems]
        books = (self.binds, self.gangs, self.preemptions)
        return [*shards, *(problem for one in books for problem in one.problems)]

    def lines(self, history: ClusterHistory) -> list[str]:
        """Return the violations as lines, with the story of the first pods they name."""
        found = [f"VIOLATION {rule}: {text}" for rule, text in self.problems]
        named: set[int] = set()
        for _rule, text in self.problems:
            words = text.replace(":", " ").replace(",", " ").split()
            for before, word in pairwise(words):
                if before in ("pod", "member", "victim") and word.isdigit():
                    named.add(int(word))
        for pod in sorted(named)[:STORIES_MAX]:
            found.append(f"-- story of {self.facts.label(pod)}")
            found += [f"   {line}" for line in story(pod, self.journals, self.facts, history)]
        return found


def check(
    records: Mapping[str, Sequence[bytes]],
    names: Mapping[str, str],
    placements: int,
    history: ClusterHistory,
    is_at_rest: bool,
    epoch: int = 1,
    landed_s: Mapping[str, Sequence[float]] | None = None,
) -> Report:
    """Check one epoch. `names` maps stored journal names to plain ones. `is_at_rest` adds the rules
    that hold once nothing is in flight. `landed_s` is when each record became readable, in seconds,
    if known. Journals must be whole (from position 0).
    """
    journals, problems = read_all(records, names)
    facts = gather(journals[INGEST])
    if problems:
        # Decisions cannot be checked without knowing what they consumed.
        return _nothing(problems, journals, facts)
    try:
        report = _replayed(problems, journals, facts, placements)
    except (LookupError, ValueError) as error:
        # The journals use a number that they never defined: no books can be kept.
        problems.append(("impossible", f"{type(error).__name__}: {error}"))
        return _nothing(problems, journals, facts)
    if landed_s is not None:
        stored = next(stored for stored, plain in names.items() if plain == BINDING)
        problems += posts.check(records[stored], landed_s[stored], facts, history, epoch)
    problems += backoffs.check(journals[QUEUEING])
    for shard in range(placements):
        problems += promises.check(journals[placement(shard)])
        problems += run_times.check(journals[placement(shard)])
    problems += permit_rejections.check(journals[QUEUEING], journals[INGEST])
    problems += turns.check_order(journals[PERMIT])
    problems += domains.check(journals)
    problems += placed_members.check(journals[QUEUEING], facts.gang_of)
    problems += growth.check(journals[QUEUEING], facts.gang_of)
    problems += kept_places.check(journals[QUEUEING], facts.gang_of)
    problems += composites.check(journals[QUEUEING], journals[PERMIT], facts.gang_of)
    problems += below_minimum.check(journals[QUEUEING], facts.gang_of)
    problems += quotas.check(journals[QUEUEING])
    problems += guarantees.check(journals[QUEUEING])
    problems += reclaims.check_claims(journals[QUEUEING])
    problems += reclaims.check_victims(journals[PREEMPTION], facts.specs)
    problems += claims.check(history)
    problems += report.of_books()
    report.unsafe = len(problems)
    if is_at_rest and not problems:
        problems += _at_rest(report, history, epoch)
    return report


def _nothing(problems: list[Problem], journals: dict[str, Journal], facts: Facts) -> Report:
    """Return a report of problems that make all other checks impossible."""
    books = (binds.Binds(), attempts.Gangs(), preemptions.Preemptions(facts))
    return Report(problems, journals, facts, *books, unsafe=len(problems))


def _replayed(
    problems: list[Problem], journals: dict[str, Journal], facts: Facts, placements: int
) -> Report:
    report = Report(
        problems,
        journals,
        facts,
        binds.replay(journals[BINDING]),
        attempts.replay(journals[PERMIT]),
        preemptions.replay(journals[PREEMPTION], facts),
        [ledger.replay(journals[placement(shard)], placements) for shard in range(placements)],
    )
    turns.check(report.shards)
    preemptions.check_sent(journals[BINDING], report.preemptions)
    return report


def _at_rest(report: Report, history: ClusterHistory, epoch: int) -> list[Problem]:
    """Return the violations of rules that hold once nothing is in flight."""
    facts = report.facts
    for shard in report.shards:
        ledger.at_rest(shard)
    binds.at_rest(report.binds)
    attempts.at_rest(report.gangs)
    queue = waiting.replay(report.journals[QUEUEING])
    end = waiting.cluster_at_end(history, facts, _devices(report.shards), report.shards[0].version)
    queues = quotas.AtEnd(report.journals[QUEUEING], facts, history)
    end.is_advised = waiting.is_advised(report.journals[placement(0)])
    return [
        *report.of_books(),
        *volumes.at_end(history),
        *claims.at_end(history),
        *identity.check(facts, history),
        *hyper_nodes.check(facts, history),
        *truth.check(report.binds, report.gangs, facts, history, epoch),
        *waiting.check(queue, facts, history, end, report.gangs.committed, queues),
    ]


def _devices(shards: Sequence[Ledger]) -> dict[int, int]:
    found: dict[int, int] = {}
    for shard in shards:
        for load in shard.loads.values():
            found.update(load.devices)
    return found
