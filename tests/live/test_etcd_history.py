"""The history that checkers read: complete, in order, through compaction and etcd's death."""

from http import HTTPStatus
from typing import Any

import pytest

from tests.live.conftest import NewCluster
from tests.support.etcd_history import NODES, PODS, EtcdHistory
from tests.support.kube_api import Answer
from tests.support.kube_objects import binding, eventually, node, pod
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("kube")]
OF_PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def stored(new_cluster: NewCluster) -> KubeServers:
    return new_cluster(KubeOptions(storage_json=True, etcd_compaction_interval_s=1))


def test_every_state_of_a_pod_is_there_with_its_revision(stored: KubeServers):
    with EtcdHistory(stored.at.etcd_url) as history:
        stored.api.create("/api/v1/nodes", node("node-a")).ok()
        made = stored.api.create(OF_PODS, pod("pod-a")).ok()["metadata"]
        stored.api.create(f"{OF_PODS}/pod-a/binding", binding("pod-a", "node-a")).ok()
        stored.api.request("DELETE", f"{OF_PODS}/pod-a?gracePeriodSeconds=0").ok()
        now = history.settle()
        key = f"{PODS}default/pod-a"
        # Between the two last: the pod with its time of deletion.
        created, bound, *_, deleted = history.changes(key)
        assert created.revision == int(made["resourceVersion"])
        assert created.value["metadata"]["uid"] == made["uid"]
        assert created.revision < bound.revision < deleted.revision <= now
        assert bound.value["spec"]["nodeName"] == "node-a"
        assert deleted.value is None
        assert list(history.at(bound.revision, PODS)) == [key]
        assert history.at(deleted.revision, PODS) == {}
        assert list(history.at(now, NODES)) == [f"{NODES}node-a"]


def test_nothing_is_missed_when_history_is_compacted_or_etcd_dies(stored: KubeServers):
    names = [f"pod-{number}" for number in range(20)]
    with EtcdHistory(stored.at.etcd_url, prefixes=(f"{PODS}default/pod-",)) as history:
        for name in names:
            stored.api.create(OF_PODS, pod(name)).ok()
        history.settle()
        stored.etcd.kill()
        stored.etcd.start()
        first = f"{OF_PODS}/{names[0]}?gracePeriodSeconds=0"
        eventually(lambda: stored.api.request("DELETE", first).status == HTTPStatus.OK, "it goes")
        history.settle()
        changes = history.changes()
    assert [change.key.rpartition("/")[2] for change in changes[: len(names)]] == names
    assert (changes[-1].key, changes[-1].value) == (changes[0].key, None)
    assert [change.revision for change in changes] == sorted({c.revision for c in changes})


def found_in(answer: Answer) -> list[Any]:
    """The objects of a list, none of one that was refused."""
    return answer.body["items"] if answer.status == HTTPStatus.OK else []


def test_history_begins_with_the_present_state(stored: KubeServers):
    # After etcd's death lists are refused while the watch cache is filled again, which may begin
    # after a successful list. So the last successful list counts.
    listed = eventually(lambda: found_in(stored.api.get(OF_PODS)), "pods are listed")
    there = {pod["metadata"]["name"] for pod in listed}
    with EtcdHistory(stored.at.etcd_url) as history:
        now = history.settle()
        found = history.at(now, PODS)
    assert {key.rpartition("/")[2] for key in found} == there


def test_a_gap_is_an_error(stored: KubeServers):
    def too_late() -> bool:
        with EtcdHistory(stored.at.etcd_url, since=1) as history:
            try:
                history.settle()
            except RuntimeError as error:
                return "has a gap" in str(error) and "compact_revision" in str(error)
        return False

    eventually(too_late, "the first revision is compacted")
