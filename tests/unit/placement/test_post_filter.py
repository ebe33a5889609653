"""Plugins that choose victims: asked in order, with answers that must keep preemption's rules."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from shared.events.ingest import BudgetCovers
from shared.events.placement import PREEMPTION, CandidatesFound, Nominated, Refused
from shared.events.preemption import BudgetLeft, DryRunAsked, NominateAsked
from shared.model.columns import pack, unpack
from shared.model.objects import Requirement, SelectorTerm
from shared.model.preemption.post_filter import NO_CLAIMS, NOT_FOUND
from shared.model.profile import DEFAULT_PREEMPTION, DYNAMIC_RESOURCES, CustomPlugin, Profile
from shared.scheduling.api.custom.plugin import PLUGINS, Plugin, Pod, Registered
from shared.scheduling.api.custom.post_filter import Evict, RefusedNodes, Stop
from tests.unit.placement.shard import Shard, node, spec

LOW, MID, HIGH, HUGE = 1, 2, 3, 4
DEFAULT = CustomPlugin(DEFAULT_PREEMPTION, "")


class First(Plugin):
    """Returns a given answer."""

    reads = ("priority", "labels.team")
    amounts = ("cpu", "ephemeral-storage")
    says: Callable[[Pod, RefusedNodes], Any] = staticmethod(lambda pod, nodes: None)

    def post_filter(self, pod: Pod, nodes: RefusedNodes) -> Any:
        return type(self).says(pod, nodes)


class Second(First):
    """Another plugin."""


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    for kind in (First, Second):
        kind.name, kind.says = kind.__name__, staticmethod(lambda pod, nodes: None)
        PLUGINS[kind.name] = Registered(kind, "0")
    yield
    PLUGINS.clear()


def says(kind: type[First], answer: Any) -> None:
    kind.says = staticmethod(answer if callable(answer) else lambda pod, nodes: answer)


def full(*order: str, **more: Any) -> Shard:
    """Return a shard with two nodes of 4 cpu, each with two pods of 1 cpu and one of 2 cpu and
    priority 5.
    """
    known = {"": DEFAULT, DYNAMIC_RESOURCES: CustomPlugin(DYNAMIC_RESOURCES, "")}
    own = tuple(known.get(one) or CustomPlugin(one, "0") for one in order)
    profile = Profile(preempts="" in order, post_filter=own)
    shard = Shard(profiles=to_builtins([profile]), **more)
    shard.sig(LOW, spec(shown=(("labels.team", "red"),))).sig(MID, spec(cpu=2_000, priority=5))
    shard.sig(HIGH, spec(cpu=1_000, priority=10)).sig(HUGE, spec(cpu=9_000, priority=10))
    for number in (1, 2):
        shard.nodes(number, node(f"n{number}"))
        first = 10 * number
        shard.assigned((first, LOW, number), (first + 1, LOW, number), (first + 2, MID, number))
    return shard


def dry_run(shard: Shard, sig: int = HIGH, **more: Any) -> CandidatesFound:
    (found,) = shard.given(DryRunAsked(1, 99, sig, **more)).run()
    assert isinstance(found, CandidatesFound)
    return found


def chosen(found: CandidatesFound) -> list[tuple[int, list[int]]]:
    return [(one.node, unpack(one.victims).tolist()) for one in found.candidates]


def on(shard: Shard, name: str) -> Callable[[Pod, RefusedNodes], Any]:
    """Return a function that evicts the most important pod on that node."""

    def most_important(_pod: Pod, nodes: RefusedNodes) -> Evict:
        at = int(nodes.named(name).argmax())
        return Evict(at, nodes.pods(at)[:1])

    return most_important


def test_a_plugin_sees_the_nodes_and_the_evictable_pods():
    seen: dict[str, Any] = {}
    shard = full("First")

    def look(pod: Pod, nodes: RefusedNodes) -> None:
        at = int(nodes.named("n2").argmax())
        seen["pods"] = [
            (one.number, one.priority, one["labels.team"], one.is_protected)
            for one in nodes.pods(at)
        ]
        seen["reasons"] = nodes.reasons()
        seen["because"] = nodes.because("Insufficient cpu").tolist()
        seen["help"] = nodes.may_help().tolist()
        seen["cpu"] = (nodes.allocatable("cpu").tolist(), nodes.requested("cpu").tolist())
        seen["storage"] = nodes.allocatable("ephemeral-storage").tolist()
        nodes.requested("cpu")[:] = 0

    shard.given(BudgetCovers(1, pack([21])))
    says(First, look)
    found = dry_run(shard, taken=pack([20]))
    # 20 leaves for another preemptor, and the budget of 21 has nothing left.
    assert seen["pods"] == [(22, 5, None, False), (21, 0, "red", True)]
    assert (seen["reasons"], seen["because"]) == ([("Insufficient cpu",)] * 2, [True] * 2)
    assert (seen["help"], seen["cpu"]) == ([True] * 2, ([4_000.0] * 2, [4_000.0] * 2))
    assert seen["storage"] == [0.0] * 2
    assert dry_run(shard).said == found.said == ("First evicts nobody",)
    assert seen["cpu"][1] == [4_000.0] * 2, "what it is shown is its own"
    # No node is large enough: nothing helps.
    dry_run(shard, HUGE)
    assert seen["help"] == [False] * 2


def test_named_victims_are_evicted_and_all_else_is_unchanged():
    shard = full("First")
    says(First, on(shard, "n2"))
    found = dry_run(shard)
    assert chosen(found) == [(2, [22])]
    one = found.candidates[0]
    assert (one.violations, one.highest, one.priority_sum, found.rank) == (0, 5, 5 + (1 << 31), 0)
    asked = NominateAsked(1, 99, HIGH, 0, one.node, one.victims)
    (nominated,) = shard.given(asked).run()
    assert isinstance(nominated, Nominated)
    shard.core.check(shard.state)


def test_budgets_are_counted():
    shard = full("First")
    shard.given(BudgetCovers(8, pack([22])))
    says(First, on(shard, "n2"))
    assert dry_run(shard, budgets=(BudgetLeft(8, 1),)).candidates[0].violations == 0
    assert dry_run(shard, budgets=(BudgetLeft(8, 0),)).candidates[0].violations == 1


def test_plugins_are_asked_in_order_until_one_answers():
    shard = full("First", "", "Second")
    found = dry_run(shard)
    assert (len(chosen(found)), found.rank) == (2, 1)
    says(First, on(shard, "n2"))
    assert (chosen(dry_run(shard)), dry_run(shard).rank) == ([(2, [22])], 0)
    says(First, "one text")
    assert dry_run(shard, HUGE).said == ("one text", PREEMPTION, "Second evicts nobody")
    assert dry_run(shard, HUGE).reasons
    says(Second, on(shard, "n1"))
    assert dry_run(shard).rank == 1, "DefaultPreemption has an answer"
    second = dry_run(full("First", "Second"))
    assert (chosen(second), second.rank) == ([(1, [12])], 1)
    says(First, Stop("no more"))
    assert dry_run(shard) == CandidatesFound(0, 1, 99, (), nodes=2, said=("no more",))


def test_dynamic_resources_add_their_text_in_order():
    for order, said in (
        ((DYNAMIC_RESOURCES, "", "First"), (NO_CLAIMS, PREEMPTION, "nobody")),
        (("First", "", DYNAMIC_RESOURCES), ("nobody", PREEMPTION, NO_CLAIMS)),
    ):
        shard = full(*order)
        says(First, "nobody")
        assert dry_run(shard, HUGE).said == said
        at = order.index("")
        found = dry_run(shard)
        assert (bool(found.candidates), found.rank) == (True, at)
        rest = (NO_CLAIMS,) if at < order.index(DYNAMIC_RESOURCES) else ()
        assert found.said == (*said[: at + 1], *rest), "extenders may leave none of these"


@pytest.mark.parametrize(
    ("claims", "said"), [("first", ()), ("last", (PREEMPTION, NO_CLAIMS)), ("", (PREEMPTION,))]
)
def test_a_profile_without_custom_plugins_reports_changed_dynamic_resources(claims, said):
    shard = Shard(profiles=to_builtins([Profile(claims=claims)]))
    shard.sig(HIGH, spec(cpu=9_000, priority=10)).nodes(1, node("n1"))
    assert dry_run(shard).said == said


@pytest.mark.parametrize("rejected", [True, False])
def test_dynamic_resources_fail_where_pre_filter_ended_early(rejected):
    two = tuple(Requirement("metadata.name", "In", (name,)) for name in ("n1", "n2"))
    torn = spec(affinity_required=(SelectorTerm(fields=two if rejected else two[:1]),), cpu=9_000)
    shard = full(DYNAMIC_RESOURCES, "First", "").sig(9, torn)
    says(First, "nobody")
    refusal = shard.dispatch(9, 50).run()[-1]
    assert isinstance(refusal, Refused)
    assert refusal.rejected == rejected
    expected = (NOT_FOUND,) if rejected else (NO_CLAIMS, "nobody", PREEMPTION)
    assert dry_run(shard, 9).said == expected


def _nobody(_pod: Pod, nodes: RefusedNodes) -> Any:
    return Evict(0, [])


def _twice(_pod: Pod, nodes: RefusedNodes) -> Any:
    return Evict(0, nodes.pods(0)[:1] * 2)


def _elsewhere(_pod: Pod, nodes: RefusedNodes) -> Any:
    return Evict(0, nodes.pods(1))


def _too_few(_pod: Pod, nodes: RefusedNodes) -> Any:
    return Evict(int(nodes.named("n1").argmax()), nodes.pods(0)[:1])


def _raises(_pod: Pod, nodes: RefusedNodes) -> Any:
    return nodes.pods(7)


@pytest.mark.parametrize(
    ("answer", "sig", "said"),
    [
        (_nobody, HIGH, "plugin First: post_filter gave nobody to evict"),
        (_twice, HIGH, "plugin First: post_filter gave a pod twice"),
        (
            _elsewhere,
            HIGH,
            "plugin First: post_filter gave pods that it may not evict on that node",
        ),
        (
            lambda *_: Evict(0, cast("Any", [1])),
            HIGH,
            "plugin First: post_filter gave pods that are not from nodes.pods",
        ),
        (Evict(2, []), HIGH, "plugin First: post_filter gave node 2 of 2"),
        (
            lambda *_: Evict(cast("Any", "n1"), []),
            HIGH,
            "gave an Evict that is not of a node's place and pods",
        ),
        (7, HIGH, "plugin First: post_filter gave neither Evict, Stop, a text nor None"),
        (lambda _pod, nodes: Evict(0, nodes.pods(0)), HUGE, "would not take the pod without those"),
        (_raises, HIGH, "plugin First raised IndexError at line"),
    ],
)
def test_an_unusable_answer_is_refused_and_ends_post_filter(answer, sig, said):
    shard, before = full("First", ""), PLUGINS["First"].made_with("").errors
    says(First, answer)
    found = dry_run(shard, sig)
    assert (found.candidates, found.series) == ((), ())
    assert len(found.said) == 1
    assert said in found.said[0]
    assert PLUGINS["First"].made_with("").errors == before + 1


def test_pods_of_the_same_priority_are_not_offered():
    shard = full("First").sig(5, spec(cpu=500, priority=5))
    says(First, on(shard, "n2"))
    assert chosen(dry_run(shard, 5)) == [(2, [20])]


def test_of_several_preemptors_the_first_is_answered_and_the_others_ask_again():
    shard = full("First")
    says(First, on(shard, "n2"))
    found = dry_run(shard, others=pack([100, 101]))
    assert found.candidates == ()
    assert [unpack(one.victims).tolist() for one in found.series] == [[22]]
    assert found.cut
    both = dry_run(full("", "First"), others=pack([100, 101]))
    assert (len(both.series), both.cut, both.rank) == (1, True, 0)
    says(First, "nobody")
    found = dry_run(shard, others=pack([100, 101]))
    assert (found.series, found.cut, found.said) == ((), False, ("nobody",))


def test_plugins_are_asked_even_where_preemption_is_hopeless():
    for order, preemptible in (((), False), (("First",), True)):
        shard = full(*order).dispatch(HUGE, 50)
        refusal = shard.run()[-1]
        assert isinstance(refusal, Refused)
        assert (refusal.resolvable, refusal.preemptible) == (0, preemptible)


def test_the_answer_lives_in_the_journal_alone():
    found = dry_run(full("First"))
    assert replace(found, rank=0, said=()) == CandidatesFound(0, 1, 99, (), nodes=2)
