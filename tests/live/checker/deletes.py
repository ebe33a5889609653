"""Every delete in the world journal was a delete in etcd."""

from collections.abc import Iterable

from tests.live.checker.cluster_state import PODS, Change
from tests.live.checker.journals import Journals, column
from tests.live.checker.shard_books import WORLD, uids_of

HEARD_WITHIN_S = 15.0
"""How much later than the product this history may learn of a change, in seconds, on a machine that
is busy with both. A missing delete is found however long that is.
"""
_FINISHED = ("Succeeded", "Failed")


def wrong_deletes(journals: Journals, changes: Iterable[Change]) -> list[str]:
    """Return pods that the world journal deletes before they were deleted."""
    gone_s = _gone(changes)
    uids = uids_of(journals)
    return [
        f"{WORLD} at {entry.position}: pod {uids[pod]} is called gone and is there"
        for entry in journals.get(WORLD, ())
        for event in entry.of("pods_gone")
        for pod in column(event["ids"])
        if gone_s.get(uids[pod], float("inf")) > entry.time_s + HEARD_WITHIN_S
    ]


def _gone(changes: Iterable[Change]) -> dict[str, float]:
    """Return by uid when each pod was deleted, finished, or terminating without a node."""
    found: dict[str, float] = {}
    there: dict[str, str] = {}
    for change in changes:
        if not change.key.startswith(PODS):
            continue
        before = there.pop(change.key, "")
        if change.value is not None:
            uid = there[change.key] = change.value["metadata"]["uid"]
            leaves = change.value["metadata"].get("deletionTimestamp")
            waits = not change.value["spec"].get("nodeName")
            finished = change.value.get("status", {}).get("phase") in _FINISHED
            if finished or (leaves and waits):
                found.setdefault(uid, change.time_s)
        if before and before != there.get(change.key):
            found.setdefault(before, change.time_s)
    return found
