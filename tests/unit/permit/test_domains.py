"""Which topology domain a gang gets, and which shard holds which members there."""

from services.permit.core.domains import choose, for_preemption, most_placed, plan_holds
from services.permit.core.state import Attempt, ShardOffer
from services.permit.core.transitions import Phase
from shared.model.columns import unpack
from shared.model.groups.topology import REST, DomainOffer, Path, Scoring, Topology

RACKS = Topology(("block", "rack"), lowest=1, highest=1)
UPWARDS = Topology(("block", "rack"), lowest=1, highest=-1)


def attempt(
    topology: Topology, *shards: dict[str, int], needed: int = 4, homes: tuple[Path, ...] = ()
) -> Attempt:
    """Return an attempt of four members, with room by `block/rack` on each shard; 8 pods fit on
    each rack.
    """
    made = Attempt(7, 1, 1, needed, [(5, [1, 2, 3, 4])], Phase.OFFERED, topology=topology)
    for shard, rooms in enumerate(shards):
        offers = tuple(
            DomainOffer(tuple(name.split("/")), (room,), (8,), (8 - room,))
            for name, room in sorted(rooms.items())
        )
        scoring = Scoring((1,), ((1,),))
        made.offers[shard] = ShardOffer((0,), (), 9, domains=offers, homes=homes, scoring=scoring)
    return made


def held(made: Attempt, path: Path | None) -> dict[int, list[tuple[Path, list[int]]]]:
    made.domain = path
    return {
        shard: [(domain, unpack(one.ids).tolist()) for one, domain in asked]
        for shard, asked in plan_holds(made).items()
    }


def test_the_fullest_rack_with_room_is_chosen():
    assert choose(attempt(RACKS, {"x/1": 8, "x/2": 5, "y/1": 3}), [], {}) == ("x", "2")


def test_rooms_of_shards_are_added():
    made = attempt(RACKS, {"x/1": 2, "x/2": 3}, {"x/1": 2, "y/1": 3})
    assert choose(made, [], {}) == ("x", "1")
    assert held(made, ("x", "1")) == {0: [(("x", "1"), [3, 4])], 1: [(("x", "1"), [1, 2])]}


def test_one_shard_is_preferred():
    made = attempt(RACKS, {"x/1": 3}, {"x/1": 4})
    assert held(made, ("x", "1")) == {1: [(("x", "1"), [1, 2, 3, 4])]}


def test_no_rack_has_room():
    made = attempt(RACKS, {"x/1": 3, "x/2": 3})
    assert choose(made, [], {}) is None
    assert most_placed(made) == ("block=x, rack=1", 3)
    assert held(made, None) == {}


def test_excluded_domains_are_left_out():
    made = attempt(RACKS, {"x/1": 8, "x/2": 5})
    assert choose(made, [("x", "2")], {}) == ("x", "1")
    assert choose(made, [("x", "2"), ("x", "1")], {}) is None


def test_what_others_will_take_is_left_out_unless_nothing_else_has_room():
    made = attempt(RACKS, {"x/1": 8, "x/2": 5})
    assert choose(made, [], {("x", "2"): 1}) == ("x", "2"), "room for five"
    assert choose(made, [], {("x", "2"): 2}) == ("x", "1")
    assert choose(made, [], {("x", "2"): 4, ("x", "1"): 8}) == ("x", "2")


def test_members_that_run_fix_the_domain():
    made = attempt(RACKS, {"x/1": 8, "x/2": 5}, needed=1, homes=(("x", "1"),))
    assert choose(made, [], {}) == ("x", "1")
    made = attempt(RACKS, {"x/1": 8, "x/2": 5}, homes=(("x", "1"), ("x", "2")))
    assert choose(made, [], {}) is None, "they are apart"


def test_a_broader_level_only_if_no_narrow_domain_has_room():
    made = attempt(UPWARDS, {"x/1": 3, "x/2": 1, "y/1": 3})
    assert choose(made, [], {}) == ("x",)
    assert held(made, ("x",)) == {0: [(("x", "1"), [1, 2, 3]), (("x", "2"), [4])]}
    made = attempt(UPWARDS, {"x/1": 2, "y/1": 1, "y/2": 1})
    assert choose(made, [], {}) == ()


def test_most_room_first_then_the_tightest():
    made = attempt(UPWARDS, {"x/1": 1, "x/2": 2, "x/3": 3})
    assert held(made, ("x",)) == {0: [(("x", "3"), [1, 2, 3]), (("x", "1"), [4])]}


def test_too_little_room_is_no_plan():
    made = attempt(UPWARDS, {"x/1": 2, "x/2": 1})
    assert held(made, ("x",)) == {}


def test_preemption_looks_in_the_broadest_level_first_where_most_fit():
    between = Topology(("block", "rack"), lowest=1, highest=0)
    made = attempt(between, {"x/1": 1, "y/1": 1, "y/2": 1, "z/1": 0})
    assert for_preemption(made) == (("y",), ("x",), ("z",))
    assert for_preemption(attempt(UPWARDS, {"x/1": 1})) in ((), ((),))


def test_a_domain_counted_as_a_whole_is_not_the_sum_of_narrower_ones():
    """Rules between members may allow three in each rack and in both together."""
    made = attempt(UPWARDS, {"x/1": 3, "x/2": 3, "x": 3})
    assert choose(made, [], {}) != ("x",)
    made = attempt(UPWARDS, {"x/1": 3, "x/2": 3, "x": 4})
    assert choose(made, [], {}) == ("x",)
    assert held(made, ("x",)) == {0: [(("x",), [1, 2, 3, 4])]}


def test_nodes_of_no_domain_count_for_the_whole_cluster_only():
    anywhere = Topology(("rack",), lowest=0, highest=-1)
    made = attempt(anywhere, {"1": 3, "*": 8})
    assert choose(made, [], {}) == ()
    assert held(made, ()) == {0: [(REST, [1, 2, 3, 4])]}
    both = attempt(anywhere, {"1": 3, "*": 2})
    assert held(both, ()) == {0: [(("1",), [1, 2, 3]), (REST, [4])]}
    below = attempt(UPWARDS, {"x/1": 3, "*": 2})
    assert choose(below, [], {}) == ()
    assert held(below, ()) == {0: [(("x", "1"), [1, 2, 3]), (REST, [4])]}
