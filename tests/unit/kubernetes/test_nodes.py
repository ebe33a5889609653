"""Nodes of a live API are read as they are: fields that a kubelet has not set yet are
not invented.
"""

import msgspec

from shared.kubernetes.objects.structs import RawNode
from shared.kubernetes.watching.nodes import node_from
from shared.model.images import packed
from shared.model.objects import Node


def parsed(**fields) -> Node:
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1", **fields.pop("metadata", {})}
    return node_from(
        msgspec.json.decode(msgspec.json.encode({"metadata": metadata, **fields}), type=RawNode)
    )


def test_a_node_that_does_not_say_how_many_pods_it_takes_takes_none():
    found = parsed(status={"allocatable": {"cpu": "4"}})
    assert found.allocatable == (("cpu", 4000),)


def test_a_node_without_the_label_of_its_name_does_not_get_it():
    assert parsed().labels == {}
    labels = {"kubernetes.io/hostname": "other"}
    assert parsed(metadata={"labels": labels}).labels == labels


def test_images_count_under_all_their_names_and_the_node_is_the_same_in_any_order():
    one = {"names": ["app@sha256:00", "app:1"], "sizeBytes": 7}
    other = {"names": None, "sizeBytes": 3}
    odd = {"names": ["odd:1"], "sizeBytes": -3}
    found = parsed(status={"images": [one, other, odd]})
    assert found.images == packed([("app:1", 7), ("app@sha256:00", 7), ("odd:1", 0)])
    assert found == parsed(status={"images": [odd, one]})
    assert parsed(status={"images": []}) == parsed()


def test_declared_features_are_read_in_order_and_once():
    found = parsed(status={"declaredFeatures": ["B", "A", "B"]})
    assert found.features == ("A", "B")
    assert parsed().features == ()
