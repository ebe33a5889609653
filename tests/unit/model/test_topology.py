"""The score by which a gang's topology domain is chosen."""

from shared.model.groups.topology import DomainCandidate, added, allocated_percent, best, name_of


def rack(name: str, placed: int, allocatable: int, requested: int) -> DomainCandidate:
    return DomainCandidate((name,), placed, (allocatable,), (requested,))


def test_the_fullest_domain_wins():
    """The figures of kube-scheduler's own test: three pods in racks of 4, 6 and 6 cpus."""
    racks = [rack("1", 3, 4, 0 + 3), rack("2", 3, 6, 2 + 3), rack("3", 3, 6, 1 + 3)]
    assert best(racks, (1,)).path == ("2",)


def test_more_members_weigh_as_much_as_a_full_domain():
    few, many = rack("few", 1, 10, 10), rack("many", 4, 10, 4)
    assert best([few, many], (1,)) is many, "25 + 100 against 100 + 40"
    half = rack("half", 3, 10, 10)
    assert best([half, many], (1,)) is half, "75 + 100 against 100 + 40"


def test_members_with_a_node_count_for_all_domains():
    few, many = rack("few", 1, 10, 10), rack("many", 4, 10, 6)
    assert best([few, many], (1,)) is many, "25 + 100 against 100 + 60"
    assert best([few, many], (1,), resting=16) is few, "85 + 100 against 100 + 60"


def test_of_equal_domains_the_first_by_path_wins():
    assert best([rack("b", 1, 4, 1), rack("a", 1, 4, 1)], (1,)).path == ("a",)


def test_the_percentage_is_a_weighted_mean_of_whole_percents():
    assert allocated_percent((1, 1), (1, 2), (3, 3)) == 49, "of 33 and 66"
    assert allocated_percent((3, 1), (1, 2), (3, 3)) == 41
    assert allocated_percent((1, 1), (5, 1), (4, 4)) == 62, "never more than all"
    assert allocated_percent((1, 1), (1, 1), (0, 2)) == 50, "none of the first resource"
    assert allocated_percent((1,), (0,), (0,)) == 0


def test_sums_and_names():
    assert added([(1, 2)]) == (1, 2)
    assert added([(1, 2), (3, 4), (5, 6)]) == (9, 12)
    assert name_of(("zone", "rack"), ("a", "r1")) == "zone=a, rack=r1"
    assert name_of(("zone", "rack"), ("a",)) == "zone=a"
    assert name_of(("zone", "rack"), ()) == ""
