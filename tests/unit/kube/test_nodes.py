"""Nodes of a live API are taken as they are: what a kubelet has not told yet is not made up."""

import msgspec

from shared.adapters.kube_nodes import node_from
from shared.adapters.kube_objects import RawNode
from shared.model.objects import Node


def told(**fields) -> Node:
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1", **fields.pop("metadata", {})}
    return node_from(
        msgspec.json.decode(msgspec.json.encode({"metadata": metadata, **fields}), type=RawNode)
    )


def test_a_node_that_does_not_say_how_many_pods_it_takes_takes_none():
    found = told(status={"allocatable": {"cpu": "4"}})
    assert found.allocatable == (("cpu", 4000),)


def test_a_node_without_the_label_of_its_name_does_not_get_it():
    assert told().labels == {}
    labels = {"kubernetes.io/hostname": "other"}
    assert told(metadata={"labels": labels}).labels == labels
