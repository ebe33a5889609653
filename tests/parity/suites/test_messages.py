"""Every message of kube-scheduler's filters and gates appears in the cases of CI, by its name."""

from collections import Counter
from contextlib import closing

import pytest

from services.queueing.core.core import QueueingCore
from services.queueing.core.state import QueueingState
from services.queueing.core.why import why
from shared.events.ingest import PodsPending, SignatureDefined
from shared.model.columns import pack
from shared.model.objects import PodSpec
from tests.parity.comparison.messages import DRAWN, NOT_DRAWN, of_kind
from tests.parity.comparison.muster_answer import our_answer
from tests.parity.comparison.tally import Tally
from tests.parity.generators import rare_fields
from tests.parity.generators.kinds import IN_CI, RARE, differences, kinds
from tests.parity.oracle.client import Oracle
from tests.parity.oracle.extender_server import ExtenderServer
from tests.parity.planted.patching import planted
from tests.parity.planted.rare_fields import BUGS
from tests.parity.suites.builders import UNRESOLVABLE, node, only, pod
from tests.simulation.planted import Bug
from tests.support.steps import Steps

EACH_MIN = 5
CASES = IN_CI[RARE]


def reached(kind: str, url: str) -> dict[str, int]:
    """In how many cases of CI each message of the kind is, up to enough of all of them."""
    draw, tally = kinds(url)[kind], Tally()
    counts: Counter[str] = Counter()
    for seed in range(IN_CI[kind]):
        tally.add(our_answer(draw(seed)))
        for message in of_kind(kind):
            counts[message] = sum(n for text, n in tally.messages.items() if message in text)
        if min(counts.values()) >= EACH_MIN:
            break
    return counts


@pytest.mark.parametrize("kind", sorted(set(DRAWN.values())))
def test_every_message_is_drawn(kind: str):
    with closing(ExtenderServer()) as server:
        few = {text: n for text, n in reached(kind, server.url).items() if n < EACH_MIN}
    assert few == {}


def test_messages_that_are_not_drawn_never_appear():
    for seed in range(CASES):
        said = str(our_answer(rare_fields.case(seed)))
        assert not [message for message in NOT_DRAWN if message in said]


def test_no_case_differs(oracle: Oracle):
    theirs = oracle.ask_all(rare_fields.case(seed) for seed in range(CASES))
    for seed, answer in enumerate(theirs):
        asked = rare_fields.case(seed)
        assert "error" not in answer, f"seed {seed}: {answer}"
        assert differences(RARE, asked, our_answer(asked), answer) == [], f"seed {seed}"


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_change_is_seen(bug: Bug):
    """The unchanged answers are kube-scheduler's, as shown above."""
    for seed in range(CASES):
        asked = rare_fields.case(seed)
        before = our_answer(asked)
        with planted(bug):
            if differences(RARE, asked, our_answer(asked), before):
                return
    pytest.fail(f"{bug.name}: none of {CASES} cases differs")


def test_a_gated_pod_waits_in_kube_schedulers_words(oracle: Oracle):
    """In a mesh, too, where the names of the gates are not among the facts."""
    gates = [{"name": name} for name in rare_fields.GATES]
    told = only(oracle, node(), asked=pod(schedulingGates=gates))["preEnqueueStatus"]
    assert (told["code"], told["plugin"]) == (UNRESOLVABLE, "SchedulingGates")
    [reason] = told["reasons"]
    steps: Steps[QueueingState] = Steps(QueueingCore(1))
    steps.given(SignatureDefined(1, PodSpec()), PodsPending(1, pack([1]), gated=True))
    words, names = reason.split(": ")
    assert why(steps.state, 1) == f"gated: {words}"
    assert names == f"[{' '.join(rare_fields.GATES)}]"
