"""What groups say about gangs of which fewer than minCount run."""

import pytest

from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.pod_groups import annotated
from shared.model.groups.below_minimum import BelowMinimum

RULE, GRACE = "muster.io/below-minimum", "muster.io/below-minimum-grace"


def read(notes: dict[str, str]) -> BelowMinimum | None:
    return annotated(Fields("PodGroup default/g", "metadata.annotations", notes)).below_minimum


@pytest.mark.parametrize(
    ("notes", "wanted"),
    [
        ({}, None),
        ({RULE: "wait"}, None),
        ({RULE: "evict"}, BelowMinimum("evict", 300_000)),
        ({RULE: "shrink", GRACE: "30s"}, BelowMinimum("shrink", 30_000)),
    ],
)
def test_a_group_says_what_becomes_of_its_gang(notes, wanted):
    assert read(notes) == wanted


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ({RULE: "evicted"}, "below-minimum"),
        ({RULE: "evict", GRACE: "soon"}, "below-minimum-grace: 'soon' is not a duration"),
        ({"muster.io/replacement-hold": "2"}, "replacement-hold: '2' is not a duration"),
        ({GRACE: "5m"}, "below-minimum-grace: needs muster.io/below-minimum: evict or shrink"),
    ],
)
def test_a_mistake_is_named_with_its_annotation(notes, message):
    with pytest.raises(WorldError, match=message):
        read(notes)
