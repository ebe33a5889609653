"""Kinds for rare paths: no difference, and every planted bug shows. Also the coverage
of all kinds.
"""

import os
from collections import Counter

import pytest

from shared.model.release import V1_35
from tests.parity.comparison.go_coverage import decides, percent, read
from tests.parity.comparison.muster_answer import our_answer
from tests.parity.generators.failures import UNTRANSLATED
from tests.parity.generators.kinds import FAILURES, IN_CI, differences, kinds
from tests.parity.generators.preemption import rank
from tests.parity.oracle.client import Oracle, require_oracle
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug

REACHED_MIN_PERCENT = 80


@pytest.mark.parametrize("kind", ["in-tree", "ties", "resized", "together"])
def test_no_case_differs(kind: str, url: str, oracle: Oracle):
    draw, seeds = kinds(url)[kind], range(IN_CI[kind])
    theirs = oracle.ask_all(draw(seed) for seed in seeds)
    for seed, answer in zip(seeds, theirs, strict=True):
        assert "error" not in answer, f"seed {seed}: {answer}"
        asked = draw(seed)
        assert differences(kind, asked, our_answer(asked), answer) == [], f"seed {seed}"


def test_cases_that_end_kube_schedulers_cycle_are_refused(url: str, oracle: Oracle):
    draw, seeds = kinds(url)[FAILURES], range(IN_CI[FAILURES])
    refused, goes_on, errors = 0, 0, set()
    theirs = oracle.ask_all(draw(seed) for seed in seeds)
    for seed, answer in zip(seeds, theirs, strict=True):
        asked = draw(seed)
        ours = our_answer(asked)
        assert differences(FAILURES, asked, ours, answer) == [], f"seed {seed}"
        refused += "error" in ours
        goes_on += UNTRANSLATED in answer.get("error", "")
        errors.add(answer.get("error", "").partition(":")[2].partition("node")[0])
    assert refused >= IN_CI[FAILURES] // 2
    assert goes_on
    assert len(errors) >= 10


def test_the_last_rule_of_the_choice_is_reached(url: str, oracle: Oracle):
    draw, equal = kinds(url)["ties"], 0
    for seed in range(IN_CI["ties"]):
        asked = draw(seed)
        for pod in oracle.ask(asked)["pods"]:
            found = (pod.get("preemption") or {"candidates": {}})["candidates"].values()
            ranks = Counter(rank(asked, one) for one in found)
            equal += bool(ranks) and ranks[min(ranks)] > 1
    assert equal >= 3


LIMITS = "shared.scheduling.plugins.volumes.node_volume_limits"
SPREAD, BINDING = (
    "shared.scheduling.plugins.pod_topology_spread",
    "shared.scheduling.plugins.volumes.volume_binding",
)
USES, REQUESTS = "shared.scheduling.volumes.volume_uses", "shared.kubernetes.objects.requests"
IN_TREE = (
    Bug("portworx-everywhere", LIMITS, ("None if volume in new else where", "None")),
    Bug("attached-volumes-of-any-node", USES, ("storage.attached_to(node, one)", "one")),
)
RESIZED = (
    Bug("spec-alone", REQUESTS, ("if ends or given is None:", "if True:")),
    Bug("granted-forgotten", REQUESTS, ("for one in given:", "for one in given[:1]:")),
    Bug("infeasible-counts", REQUESTS, ("requests if counts_spec else {}", "requests")),
    Bug("deferred-is-never", REQUESTS, ('== "Infeasible"', '!= ""')),
)
TOGETHER = (
    Bug(
        "namespaces-as-they-say",
        "shared.scheduling.table.selectors",
        ("is not None and holds(term.namespace_selector, {})", "== ('nobody',)"),
    ),
    Bug(
        "pages-of-pods-scored",
        "shared.scheduling.cycle.signature",
        ("for name, amount in self.spec.asked_pages:", "for name, amount in ():"),
    ),
    Bug(
        "empty-selector-counts-at-once",
        SPREAD,
        ("if one.trials_only else row)", "if False else row)"),
    ),
    Bug("empty-selector-never-counts", SPREAD, ("row - _row(before, one.counter)", "row - row")),
    Bug(
        "no-selected-node",
        BINDING,
        ("if claim.selected_node is not None", "if claim.selected_node"),
    ),
    Bug(
        "rejected-without-nodes",
        "muster.explain.scoring",
        ("sig) if self._names else None", "sig)"),
    ),
)
WEIGHTLESS = Bug(
    "weightless-unscored",
    "shared.scheduling.plugins.node_affinity",
    ("or self._added)", "or any(one.weight for one in self._added))"),
)


@pytest.mark.parametrize(
    ("kind", "bug"),
    [
        *(("in-tree", bug) for bug in IN_TREE),
        *(("resized", bug) for bug in RESIZED),
        *(("together", bug) for bug in TOGETHER),
        ("configs", WEIGHTLESS),
    ],
    ids=lambda one: one.name if isinstance(one, Bug) else one,
)
def test_a_change_is_noticed(kind: str, bug: Bug, url: str):
    """The unchanged answers are kube-scheduler's, as shown above."""
    draw = kinds(url)[kind]
    for seed in range(IN_CI[kind]):
        asked = draw(seed)
        before = our_answer(asked)
        with planted(bug):
            if differences(kind, asked, our_answer(asked), before):
                return
    pytest.fail(f"{bug.name}: none of the cases differs")


def test_all_kinds_together_reach_four_fifths(url: str, tmp_path, monkeypatch):
    """Of the statements that decide: a third of the cases of CI does."""
    draw = kinds(url)
    assert IN_CI.keys() == draw.keys()
    monkeypatch.setitem(os.environ, "GOCOVERDIR", str(tmp_path))
    require_oracle()
    with Oracle() as oracle:
        for kind, count in IN_CI.items():
            for _ in oracle.ask_all(draw[kind](seed) for seed in range(0, count, 3)):
                pass
    assert percent(filter(decides, read(tmp_path / V1_35))) >= REACHED_MIN_PERCENT
