"""Compares two answers to one case, Muster's and kube-scheduler's, field by field.

Two things are not differences: the order of insufficient extended resources, which kube-scheduler
takes from a map, and a plugin that Muster lacks and that scores 0 on every node.
"""

from collections.abc import Mapping
from typing import Any

Answer = Mapping[str, Any]

PASSED_OVER = ("DynamicResources",)
IN_ORDER = ("Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage")
POD_FIELDS = ("namespace", "name", "preFilterStatus", "fitError", "best")
SAMPLING, GATED = "sampling", "preEnqueueStatus"
"""Fields of answers with sampled nodes, and of pods that are not queued."""
NODE_FIELDS = ("feasible", "code", "plugin", "total")
NODE_KEYS = {*NODE_FIELDS, "reasons", "scores"}


def differences(ours: Answer, theirs: Answer) -> list[str]:
    """Return one line for each difference; none if the answers agree."""
    if "error" in ours or "error" in theirs:
        return [f"ours: {ours.get('error', 'ok')}, theirs: {theirs.get('error', 'ok')}"]
    if len(ours["pods"]) != len(theirs["pods"]):
        return [f"ours: {len(ours['pods'])} pods, theirs: {len(theirs['pods'])}"]
    return [
        f"{mine['namespace']}/{mine['name']} {line}"
        for mine, other in zip(ours["pods"], theirs["pods"], strict=True)
        for line in _pod(mine, other)
    ]


def kind(line: str) -> str:
    """Return the kind of a difference, without names and values."""
    words = line.partition(": ours")[0].split(" ")[1:]
    return " ".join(words[2:] if words[:1] == ["node"] else words)


def _pod(ours: Answer, theirs: Answer) -> list[str]:
    for key, what in ((SAMPLING, "who samples"), (GATED, "who is not queued")):
        if (key in ours) != (key in theirs):
            return [_line(what, key in ours, key in theirs)]
    fields = [*POD_FIELDS, *(key for key in (SAMPLING, GATED) if key in theirs)]
    assert ours.keys() == theirs.keys() == {*fields, "nodes"}, f"{[*ours]} {[*theirs]}"
    found = [_line(key, ours[key], theirs[key]) for key in fields if ours[key] != theirs[key]]
    mine, others = ours["nodes"], theirs["nodes"]
    if mine.keys() != others.keys():
        return [*found, _line("nodes", sorted(mine), sorted(others))]
    found += [
        f"node {name} {line}" for name in sorted(mine) for line in _node(mine[name], others[name])
    ]
    return found


def _node(ours: Answer, theirs: Answer) -> list[str]:
    assert ours.keys() == theirs.keys() == NODE_KEYS, f"{[*ours]} {[*theirs]}"
    found = [_line(key, ours[key], theirs[key]) for key in NODE_FIELDS if ours[key] != theirs[key]]
    if _reasons(ours) != _reasons(theirs):
        found.append(_line("reasons", ours["reasons"], theirs["reasons"]))
    scores = dict(theirs["scores"])
    for plugin in PASSED_OVER:
        passed_over = scores.pop(plugin, 0)
        if passed_over != 0:
            found.append(_line(f"score of {plugin}", "none", passed_over))
    for plugin in sorted({*ours["scores"], *scores}):
        mine, other = ours["scores"].get(plugin, "none"), scores.get(plugin, "none")
        if mine != other:
            found.append(_line(f"score of {plugin}", mine, other))
    return found


def _reasons(node: Answer) -> tuple[list[str], list[str]]:
    """Split reasons into those in a fixed order and those in any order."""
    reasons = node["reasons"]
    free = [one for one in reasons if one.startswith("Insufficient ") and one not in IN_ORDER]
    return [one for one in reasons if one not in free], sorted(free)


def _line(what: str, ours: object, theirs: object) -> str:
    return f"{what}: ours {ours!r}, theirs {theirs!r}"
