"""Pods wait until they name the team that they are of; the queue goes by what a team bids."""

from muster.plugin import Plugin, Pod


class Teams(Plugin):
    """The label `team` must be there; the annotation `bid` counts in place of the priority."""

    reads = ("labels.team", "annotations.bid")

    def pre_enqueue(self, pod: Pod):
        return None if pod["labels.team"] else "the pod names no team"

    def queue_sort(self, pod: Pod):
        return int(pod["annotations.bid"] or 0)
