"""A reset as a small model, explored in every interleaving and crash; then each rule is dropped.

An owner of the old epoch binds one pod: its record lands, then its POST goes out and may land at
any time until it does. The reset retires the old journal with a claim of the new epoch, raises the
pod's resourceVersion, and opens the next epoch, whose owner reads the pod as it is and binds it
elsewhere. The reset may die between any two steps and is run again from what it left behind. What
must never be: a POST of the old epoch that lands after the new epoch has read the pod as unbound.
(The real reset is shared/machine/reset.py; claims and appends have test_machine_model.py.)
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import pytest

Rule = Literal[
    "none",
    "the old journal is retired",
    "revisions are raised",
    "revisions are raised after the old journal is retired",
    "the new epoch opens last",
    "a reset that died starts over",
]
STEPS: dict[Rule, tuple[str, ...]] = {
    "none": ("retire", "fence", "open"),
    "the old journal is retired": ("fence", "open"),
    "revisions are raised": ("retire", "open"),
    "revisions are raised after the old journal is retired": ("fence", "retire", "open"),
    "the new epoch opens last": ("open", "retire", "fence"),
    "a reset that died starts over": ("retire", "fence", "open"),
}
DEATHS_MAX = 2
REVISIONS_MAX = 4


class State(NamedTuple):
    """Everything: the old owner, its POST, the pod, the reset, and what the new epoch believes."""

    owner: Literal["idle", "recorded", "sent"] = "idle"
    known: int = 0  # the pod's revision as the old owner has read it
    posts: frozenset[int] = frozenset()  # under way, each with the revision it carries
    revision: int = 0
    node: Literal["", "old", "new"] = ""
    done: int = 0  # steps of the reset that were taken
    is_retired: bool = False
    is_open: bool = False
    deaths: int = 0
    believes: Literal["nothing", "unbound", "bound"] = "nothing"


def old_owner(state: State) -> Iterator[State]:
    """Yield the old owner's steps: read the pod, record a bind, send it; in a retired journal its
    records are void.
    """
    if state.owner == "idle" and not state.node:
        yield state._replace(known=state.revision)
        if not state.is_retired:
            yield state._replace(owner="recorded")
    if state.owner == "recorded":
        yield state._replace(owner="sent", posts=state.posts | {state.known})


def cluster(state: State) -> Iterator[State]:
    """Yield the landing of each POST: it succeeds if the pod is unbound and has the POST's
    revision.
    """
    for carried in state.posts:
        rest = state._replace(posts=state.posts - {carried})
        if not state.node and carried == state.revision:
            yield rest._replace(node="old", revision=state.revision + 1)
        else:
            yield rest


def reset(state: State, rule: Rule) -> Iterator[State]:
    """Yield the reset's next step, and its death before that."""
    steps = STEPS[rule]
    if state.done == len(steps):
        return
    if state.deaths < DEATHS_MAX:
        # Run again, it begins at the beginning: what it had done may be of another moment.
        again = len(steps) - 1 if rule == "a reset that died starts over" else 0
        yield state._replace(deaths=state.deaths + 1, done=again)
    after = state._replace(done=state.done + 1)
    match steps[state.done]:
        case "retire":
            # A record that was acknowledged before shows its effects after.
            yield after._replace(is_retired=True)
        case "fence":
            raised = state.revision + (not state.node)
            yield after._replace(revision=min(raised, REVISIONS_MAX))
        case "open":
            yield after._replace(is_open=True)


def new_owner(state: State) -> Iterator[State]:
    """Yield the new owner's steps: list the world once the epoch is open, bind a pod seen as
    unbound.
    """
    if state.is_open and state.believes == "nothing":
        yield state._replace(believes="bound" if state.node else "unbound")
    if state.believes == "unbound" and not state.node:
        yield state._replace(node="new", revision=state.revision + 1, believes="bound")


def successors(state: State, rule: Rule) -> Iterator[State]:
    """Yield the states after every possible step."""
    yield from old_owner(state)
    yield from cluster(state)
    yield from reset(state, rule)
    yield from new_owner(state)


def broken(state: State) -> str | None:
    """Return the property that a state violates."""
    if state.believes == "unbound" and state.node == "old":
        return f"an old bind landed after the new epoch had read the pod as unbound: {state}"
    return None


def explore(rule: Rule) -> tuple[int, str | None]:
    """Return the number of reachable states, and the first violation."""
    seen, stack = {State()}, [State()]
    while stack:
        state = stack.pop()
        problem = broken(state)
        if problem is not None:
            return len(seen), problem
        fresh = [following for following in successors(state, rule) if following not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return len(seen), None


def test_no_old_bind_lands_after_a_reset_in_any_interleaving() -> None:
    states, problem = explore("none")
    assert problem is None
    assert states > 200, "the model does not reach what it should"


@pytest.mark.parametrize("rule", [rule for rule in STEPS if rule != "none"])
def test_each_rule_of_a_reset_is_needed(rule: Rule) -> None:
    _states, problem = explore(rule)
    assert problem is not None, f"no violation without: {rule}"
