"""HTTP extenders as configured, and the meaning of their replies. Values only, no calls. Texts are
kube-scheduler's (extender.go of 1.35).
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from shared.model.objects import PodSpec
from shared.model.text import quoted

SCALE = 10  # an extender scores 0..10, a plugin 0..100
POD = "pod"  # in PodSpec.shown: namespace and name of a pod that extenders are asked about


class Tls(Struct, frozen=True):
    """The TLS settings of a connection. `authorities` is PEM."""

    insecure: bool = False
    server_name: str = ""
    authorities_file: str = ""
    authorities: str = ""
    certificate_file: str = ""
    key_file: str = ""


class Extender(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One extender: empty verbs are not called; with `managed_resources` only pods that name one of
    them are its concern. `ignorable`: the cycle goes on when it fails; a bind goes on without it.
    """

    url: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    preempt_verb: str = ""
    weight: int = 0
    timeout_ms: int = 5_000
    knows_nodes: bool = False
    managed_resources: tuple[str, ...] = ()
    ignorable: bool = False
    tls: Tls = Tls()

    def is_interested(self, pod: Mapping[str, Any]) -> bool:
        """Return whether the pod, a Kubernetes object, requests a resource that it manages."""
        if not self.managed_resources:
            return True
        spec = pod.get("spec") or {}
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        resources = [one.get("resources") or {} for one in containers]
        named = [{**(one.get("requests") or {}), **(one.get("limits") or {})} for one in resources]
        return any(name in self.managed_resources for names in named for name in names)

    def concerns(self, spec: PodSpec) -> bool:
        """Return whether a spec requests a resource that it manages."""
        managed = self.managed_resources
        return not managed or any(name in managed for name, _amount in spec.requests)

    def judges(self, spec: PodSpec) -> bool:
        """Return whether it filters or scores nodes for such pods."""
        return bool(self.filter_verb or self.prioritize_verb) and self.concerns(spec)

    def binds(self, spec: PodSpec) -> bool:
        """Return whether it binds such pods, in place of the bind plugins."""
        return bool(self.bind_verb) and self.concerns(spec)

    def names_victims(self, spec: PodSpec) -> bool:
        """Return whether it chooses victims for such pods."""
        return bool(self.preempt_verb) and self.concerns(spec)

    def preempts(self, pod: Mapping[str, Any]) -> bool:
        """Return whether it chooses victims for a pod, a Kubernetes object."""
        return bool(self.preempt_verb) and self.is_interested(pod)

    def arguments(self, pod: Mapping[str, Any], nodes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of filter and prioritize: only names if it caches nodes."""
        if self.knows_nodes:
            return {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes.values())}} | {
            "NodeNames": None
        }


CALLED: list[Extender] = []
"""The extenders that a running mesh calls: filled before any pod is read, like an import."""


def named(spec: PodSpec, namespace: str, name: str) -> PodSpec:
    """Return the spec with the pod's name, if extenders are asked about its nodes: they may answer
    differently for equal pods, and the call needs the name.
    """
    if not any(one.judges(spec) for one in CALLED):
        return spec
    shown = tuple(sorted((*spec.shown, (POD, f"{namespace}/{name}"))))
    return structs.replace(spec, shown=shown)


def name_of(spec: PodSpec) -> tuple[str, str]:
    """Return namespace and name, as `named` wrote them."""
    namespace, _, name = dict(spec.shown)[POD].partition("/")
    return namespace, name


class ExtenderError(Exception):
    """An extender failed, or its reply makes no sense."""


class Filtered(Struct, frozen=True):
    """The nodes that an extender leaves, in its order, and its reasons against others."""

    nodes: tuple[str, ...]
    failed: dict[str, str]
    unresolvable: dict[str, str]


class Victims(Struct, frozen=True):
    """The victims on a node, by uid, in the order of the call, and how many of them are beyond
    their budgets.
    """

    uids: tuple[str, ...]
    violations: int = 0


class _Reply(Struct):
    nodes: dict[str, Any] | None = None
    nodenames: list[str] | None = None
    failednodes: dict[str, str] | None = None
    failedandunresolvablenodes: dict[str, str] | None = None
    error: str | None = None


class _Bound(Struct):
    error: str | None = None


class _MetaPod(Struct):
    uid: str = ""


class _MetaVictims(Struct):
    pods: list[object] | None = None
    numpdbviolations: int = 0


class _Preempted(Struct):
    nodenametometavictims: dict[str, object] | None = None


class _Score(Struct):
    host: str = ""
    score: int = 0


def filtered(extender: Extender, asked: Sequence[str], reply: object) -> Filtered:
    """Return the meaning of a reply to filter. Raises ExtenderError."""
    parsed = _as(_Reply, {} if reply is None else reply)
    if parsed.error:
        raise ExtenderError(quoted(parsed.error))
    names: list[str] = []
    if extender.knows_nodes and parsed.nodenames is not None:
        names = parsed.nodenames
    elif parsed.nodes is not None:
        items = _as(list[dict[str, Any]], parsed.nodes.get("items") or [])
        names = [str((one.get("metadata") or {}).get("name", "")) for one in items]
    known = set(asked)
    for name in names:
        if name not in known:
            raise ExtenderError(
                f'extender "{extender.url}" claims a filtered node "{quoted(name)}" which is not '
                "found in the input node list"
            )
    unresolvable = _quoted(parsed.failedandunresolvablenodes)
    failed = {
        name: text for name, text in _quoted(parsed.failednodes).items() if name not in unresolvable
    }
    return Filtered(tuple(dict.fromkeys(names)), failed, unresolvable)


def prioritized(extender: Extender, reply: object) -> dict[str, int]:
    """Return what a reply to prioritize adds to the totals of nodes. Raises ExtenderError."""
    totals: dict[str, int] = {}
    for one in _as(list[_Score], [] if reply is None else reply):
        totals[one.host] = totals.get(one.host, 0) + one.score * extender.weight * SCALE
    return totals


def victims_asked(
    extender: Extender,
    pod: Mapping[str, Any],
    found: Mapping[str, Victims],
    objects: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the arguments of preempt, by node: only uids if it caches nodes, else pods, which
    `objects` has by uid.
    """
    known = extender.knows_nodes
    nodes = {
        node: {
            "Pods": [{"UID": uid} if known else objects[uid] for uid in one.uids],
            "NumPDBViolations": one.violations,
        }
        for node, one in found.items()
    }
    both = (None, nodes) if known else (nodes, None)
    return {"Pod": pod, "NodeNameToVictims": both[0], "NodeNameToMetaVictims": both[1]}


def preempted(
    extender: Extender, reply: object, there: Mapping[str, Container[str]]
) -> dict[str, Victims]:
    """Return what a reply to preempt leaves: nodes, and of pods that are `there`. An ignorable
    extender may name nodes without victims: they are left out. Raises ExtenderError.
    """
    parsed = _as(_Preempted, {} if reply is None else reply)
    found: dict[str, Victims] = {}
    for node, given in (parsed.nodenametometavictims or {}).items():
        if node not in there:
            raise ExtenderError(f'nodeinfo not found for node name "{quoted(node)}"')
        one = _as(_MetaVictims, given)
        uids = tuple(_as(_MetaPod, pod).uid for pod in one.pods or ())
        for uid in uids:
            if uid not in there[node]:
                raise ExtenderError(
                    f"extender: {extender.url} claims to preempt pod (UID: &{{{quoted(uid)}}}) on "
                    f"node: {node}, but the pod is not found on that node"
                )
        found[node] = Victims(uids, one.numpdbviolations)
    empty = [node for node, one in found.items() if not one.uids]
    if empty and not extender.ignorable:
        raise ExtenderError(f'expected at least one victim pod on node "{empty[0]}"')
    return {node: one for node, one in found.items() if one.uids}


def _quoted(reasons: dict[str, str] | None) -> dict[str, str]:
    """Return shortened reasons, for records and conditions."""
    return {name: quoted(text) for name, text in (reasons or {}).items()}


def require_bound(reply: object) -> None:
    """Check a reply to bind. Raises ExtenderError."""
    parsed = _as(_Bound, {} if reply is None else reply)
    if parsed.error:
        raise ExtenderError(quoted(parsed.error))


def _as(kind: Any, value: object) -> Any:
    """Return a value as Go's JSON reads it: the case of field names and unknown fields do not
    matter.
    """
    try:
        return msgspec.convert(_lowered(value), kind)
    except msgspec.ValidationError as error:
        raise ExtenderError(f"the reply is not what an extender says: {error}") from error


def _lowered(value: object) -> object:
    """Return the value with its field names, or those of objects in a list, in lower case; no
    deeper, as a reply may nest deeper than calls can.
    """
    if isinstance(value, list):
        return [_lowered(one) if isinstance(one, dict) else one for one in value]
    if isinstance(value, dict):
        return {str(key).lower(): inner for key, inner in value.items()}
    return value
