"""Filters node by node, with a pattern and a cache of texts."""

import re
from functools import cache

from muster.plugin import Node, Plugin, Pod

VERSION = re.compile(r"v(\d+)[.](\d+)")
SEEN_LABELS = ["a", "b"]


@cache
def version(text: str) -> tuple[int, int]:
    found = VERSION.match(text)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def missing(node: Node, wanted: list[str]) -> set[str]:
    return {key for key in wanted if key not in node.labels}


class Fresh(Plugin):
    reads = ("annotations.needs", "priority")
    message = "node(s) were too old"

    def filter_node(self, pod: Pod, node: Node) -> bool:
        needs = pod["annotations.needs"]
        if not needs:
            return True
        if missing(node, SEEN_LABELS):
            return False
        wanted = set(needs.split(","))
        has = set(node.labels) | {taint.key for taint in node.taints}
        return wanted <= has and version(node.labels.get("version", "")) >= (1, 2)

    def score_node(self, pod: Pod, node: Node) -> int:
        score = 100
        for taint in node.taints:
            if taint.effect == "PreferNoSchedule":
                score -= 10
        _, _, number = node.name.rpartition("-")
        return max(score - (int(number) if number.isdigit() else 0), 0)
