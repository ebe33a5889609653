"""HTTP extenders: the pods that they handle, the questions, and the meaning of the replies."""

import pytest

from shared.extenders.values import (
    Extender,
    ExtenderError,
    Filtered,
    filtered,
    prioritized,
    require_bound,
)

GADGET = "example.com/gadget"
NAMES = ("a", "b", "c")
KNOWING = Extender(url="http://h/x", knows_nodes=True, weight=3)
NODES = {name: {"metadata": {"name": name}} for name in NAMES}


def pod(kind: str = "containers", **resources: dict[str, str]) -> dict[str, object]:
    return {"metadata": {"name": "p"}, "spec": {kind: [{"name": "c", "resources": resources}]}}


@pytest.mark.parametrize(
    ("one", "is_its"),
    [
        (pod(), False),
        (pod(requests={GADGET: "1"}), True),
        (pod(limits={GADGET: "1"}), True),
        (pod("initContainers", limits={GADGET: "0"}), True),
        (pod("ephemeralContainers", limits={GADGET: "1"}), False),
        (pod(requests={"cpu": "1"}), False),
        ({"spec": {"containers": [{"resources": None}], "initContainers": None}}, False),
    ],
)
def test_an_extender_is_interested_in_pods_with_its_resources(one, is_its):
    managing = Extender(url="http://h", managed_resources=(GADGET,))
    assert managing.is_interested(one) == is_its
    assert Extender(url="http://h").is_interested(one)


def test_the_arguments_of_an_extender():
    assert KNOWING.arguments(pod(), NODES) == {
        "Pod": pod(),
        "Nodes": None,
        "NodeNames": ["a", "b", "c"],
    }
    asked = Extender(url="http://h").arguments(pod(), NODES)
    assert asked["NodeNames"] is None
    assert asked["Nodes"]["items"] == list(NODES.values())


def test_node_names_count_only_from_node_cache_capable_extenders():
    both = {"NodeNames": ["c", "a", "c"], "Nodes": {"items": [NODES["b"]]}}
    assert filtered(KNOWING, NAMES, both).nodes == ("c", "a")
    assert filtered(Extender(url="http://h"), NAMES, both).nodes == ("b",)
    assert filtered(KNOWING, NAMES, {"nodes": both["Nodes"]}).nodes == ("b",)
    assert filtered(KNOWING, NAMES, {"NodeNames": None, "Nodes": None}) == Filtered((), {}, {})


def test_null_leaves_no_node():
    assert filtered(KNOWING, NAMES, None) == Filtered((), {}, {})


def test_unresolvable_counts_first():
    reply = {"NodeNames": [], "FailedNodes": {"a": "x", "b": "y"}}
    reply |= {"FailedAndUnresolvableNodes": {"b": "z"}}
    assert filtered(KNOWING, NAMES, reply) == Filtered((), {"a": "x"}, {"b": "z"})


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"NodeNames": ["a"], "Error": "no"}, "no"),
        (
            {"NodeNames": ["d"]},
            'extender "http://h/x" claims a filtered node "d" which is not found',
        ),
        ({"Nodes": {"items": [{}]}}, 'claims a filtered node ""'),
        ({"NodeNames": "a"}, "not what an extender says"),
        (["a"], "not what an extender says"),
        ({"Nodes": {"items": ["a"]}}, "not what an extender says"),
    ],
)
def test_senseless_replies_are_errors(reply, said):
    with pytest.raises(ExtenderError, match=said):
        filtered(KNOWING, NAMES, reply)


def test_scores():
    reply = [{"Host": "a", "Score": 2}, {"host": "b", "score": 10, "more": 1}, {"Host": "a"}]
    assert prioritized(KNOWING, reply) == {"a": 60, "b": 300}
    assert prioritized(KNOWING, None) == prioritized(KNOWING, []) == {}
    with pytest.raises(ExtenderError):
        prioritized(KNOWING, [{"Host": "a", "Score": "2"}])


def test_texts_of_any_size_become_short_lines():
    huge = "no\n" * 1_000_000
    for reply in ({"Error": huge}, {"NodeNames": [huge]}):
        with pytest.raises(ExtenderError) as raised:
            filtered(KNOWING, NAMES, reply)
        assert len(str(raised.value)) < 400
        assert str(raised.value).isprintable()
    said = {"FailedNodes": {"a": huge}, "FailedAndUnresolvableNodes": {"b": huge}}
    found = filtered(KNOWING, NAMES, {"NodeNames": [], **said})
    assert [len(text) < 201 for text in (found.failed["a"], found.unresolvable["b"])] == [True] * 2
    with pytest.raises(ExtenderError) as raised:
        require_bound({"Error": huge})
    assert len(str(raised.value)) < 201
