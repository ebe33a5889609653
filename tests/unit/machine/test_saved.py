"""A state's plain values come from its types, and equal states have equal bytes."""

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

import msgspec
import numpy as np
import pytest
from msgspec import Struct
from numpy.typing import NDArray

from shared.machine.saved import Amount, Derived, Ordered, Shared, load, save
from shared.model.columns import I64
from shared.model.podset import PodSet

encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Phase(IntEnum):
    NEW = 0
    OLD = 1


class Name(Struct, frozen=True):
    text: str
    labels: dict[str, str] = {}


class Ask(Struct):
    pod: int
    phase: Phase = Phase.NEW
    name: Name | None = None
    by_shard: dict[int, Name] = {}
    order: Derived[int] = 0


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 5_000
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class Column:
    ids: list[int | I64] = field(default_factory=list)
    count: int = 0


@dataclass(eq=False)
class State:
    asks: dict[int, Ask] = field(default_factory=dict)
    names: dict[int, Name] = field(default_factory=dict)
    phases: dict[tuple[int, str], Phase] = field(default_factory=dict)
    left: Ordered[dict[str, int]] = field(default_factory=dict)
    waiting: Ordered[dict[int, None]] = field(default_factory=dict)
    open: dict[int, None] = field(default_factory=dict)
    messages: Shared[dict[int, str]] = field(default_factory=dict)
    shards: set[int] = field(default_factory=set)
    keys: frozenset[str] = frozenset()
    recent: deque[tuple[int, bytes]] = field(default_factory=deque)
    marks: NDArray[np.int8] = field(default_factory=lambda: np.zeros(8, np.int8))
    reports: Ordered[dict[str, Column]] = field(default_factory=dict)
    queued: deque[int | I64] = field(default_factory=deque)
    pods: PodSet = field(default_factory=PodSet)
    pair: tuple[int, Ask | None] = (0, None)
    next_ask: int = 1
    is_listed: bool = False
    free: Amount = 0
    config: Config = field(default_factory=Config)
    by_pod: Derived[dict[int, int]] = field(default_factory=dict)


def full() -> State:
    state = State(next_ask=0, is_listed=True, keys=frozenset({"b", "a"}), shards={2, 0})
    state.asks[7] = Ask(1, Phase.OLD, Name("x"), {2: Name("b"), 1: Name("a", {"k": "v"})}, 5)
    state.asks[3] = Ask(2)
    state.names[1] = Name("n")
    state.phases[2, "b"] = state.phases[1, "z"] = Phase.OLD
    state.left = {"z": 1, "a": 2}
    state.waiting, state.open = {9: None, 4: None}, {9: None, 4: None}
    state.messages = {5: "no", 2: "yes", 1: "no"}
    state.recent.append((1, b"a"))
    state.marks[2] = 1
    state.reports = {"z": Column([3, np.array([4, 5])], 1), "a": Column()}
    state.queued.extend([1, np.array([8, 2])])
    state.pods.add(np.array([1, 5_000]))
    state.pair = (1, Ask(9))
    state.by_pod[1] = 7
    state.free, state.config = -(1 << 70), Config(names=("a",))
    return state


def through(state: State) -> State:
    """The state after a snapshot."""
    return load(State(), msgspec.msgpack.decode(encode(save(state))))


@pytest.mark.parametrize("state", [State(), full()], ids=["empty", "full"])
def test_a_loaded_state_saves_the_same_bytes(state):
    assert encode(save(through(state))) == encode(save(state))


def test_a_loaded_state_has_the_same_values():
    state, loaded = full(), through(full())
    assert loaded.asks[7].phase is Phase.OLD
    assert loaded.asks[7].by_shard == state.asks[7].by_shard
    assert loaded.pair == state.pair
    assert (loaded.recent, loaded.shards, loaded.keys) == (state.recent, state.shards, state.keys)
    assert (loaded.next_ask, loaded.is_listed, loaded.messages) == (0, True, state.messages)
    assert loaded.phases == state.phases
    assert 5_000 in loaded.pods
    assert 4_999 not in loaded.pods


def test_only_an_ordered_dict_keeps_its_order():
    loaded = through(full())
    assert list(loaded.left) == ["z", "a"]
    assert list(loaded.waiting) == [9, 4]
    assert list(loaded.reports) == ["z", "a"]
    assert list(loaded.open) == [4, 9]
    assert list(loaded.asks) == [3, 7]


def test_equal_states_have_equal_bytes():
    state, other = full(), full()
    other.asks = dict(reversed(other.asks.items()))
    other.messages = dict(reversed(other.messages.items()))
    other.open = dict(reversed(other.open.items()))
    other.marks = np.concatenate((other.marks, np.zeros(90, np.int8)))
    other.queued = deque([np.array([1, 8]), 2])
    assert encode(save(other)) == encode(save(state))


@pytest.mark.parametrize("amount", [0, 1 << 63, (1 << 63) - 1, -(1 << 63), -(1 << 63) - 1])
def test_an_amount_is_exact(amount):
    assert through(State(free=amount)).free == amount


def test_only_options_that_are_set_are_saved():
    assert save(State(config=Config(limit=4_999 + 1))) == save(State())
    assert save(full())["config"] == {"names": ("a",)}
    assert through(full()).config == Config(names=("a",))


def test_derived_fields_are_left_out():
    loaded = through(full())
    assert loaded.by_pod == {}
    assert loaded.asks[7].order == 0


def test_a_loaded_array_may_be_written():
    loaded = through(full())
    loaded.marks[0] = 3
    assert loaded.marks.tolist() == [3, 0, 1]


def test_nothing_saved_changes_with_the_state():
    state = full()
    saved = save(state)
    before = encode(saved)
    state.asks[3].phase = Phase.OLD
    state.reports["a"].ids.append(4)
    state.marks[1] = 1
    state.asks[7].by_shard.clear()
    state.queued.clear()
    assert encode(saved) == before


def test_a_body_can_be_loaded_twice():
    body = msgspec.msgpack.decode(encode(save(full())))
    load(State(), body)
    assert encode(save(load(State(), body))) == encode(save(full()))


def test_empty_fields_are_left_out_unless_they_differ_from_the_default():
    assert save(State()).keys() == {"pods", "pair", "next_ask"}
    assert save(State(next_ask=0))["next_ask"] == 0


def test_missing_fields_keep_their_defaults():
    assert load(State(), {"asks": [[3, 2]]}).asks == {3: Ask(2)}


@pytest.mark.parametrize(
    "body",
    [[1, 2], None, {"unknown": 1}, {"asks": [[1, 1, 0, None, [], 9]]}, {"names": [[1, 2]]}],
)
def test_the_body_of_another_version_is_refused(body):
    with pytest.raises((msgspec.ValidationError, ValueError, TypeError)):
        load(State(), body)


def test_a_type_that_cannot_be_saved_is_named():
    @dataclass
    class Odd:
        lock: type = int

    with pytest.raises(TypeError, match="a snapshot cannot hold"):
        save(Odd())
