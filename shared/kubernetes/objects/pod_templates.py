"""Reads what the scheduler needs from a pod's metadata and spec; it knows no controllers.

Known fields without effect on scheduling (commands, probes, security contexts) are ignored. Fields
whose rules would be broken by ignoring them are refused.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from shared.kubernetes.objects import affinity, pod_rules, quantities
from shared.kubernetes.objects.claims.claims import pod_claims
from shared.kubernetes.objects.errors import WorldError, shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.pod_volumes import volumes_of
from shared.kubernetes.objects.requests import HUGE_PAGES, Effective, effective, take_gpu
from shared.model.images import canonical
from shared.model.objects import (
    CPU,
    MEMORY,
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_ON_HOST_NETWORK,
    HostPort,
    PodSpec,
)
from shared.model.release import DEFAULT_RELEASE, Release

NO_STATUS = Fields("", "status", {})
PRIORITY_MAX = 1_000_000_000
SYSTEM_PRIORITY = 2_000_000_000
NEVER, PREEMPTS = "Never", "PreemptLowerPriority"
PORT_MAX = 65_535
SECONDS_MAX = 1 << 31

USED = {
    *("containers", "initContainers", "overhead", "resources", "nodeSelector", "affinity"),
    *("tolerations", "schedulingGates", "priorityClassName", "priority", "preemptionPolicy"),
    *("nodeName", "schedulerName", "hostNetwork", "workloadRef", "topologySpreadConstraints"),
    *("volumes", "resourceClaims", "schedulingGroup", "hostUsers"),
}
PASSED_OVER = {
    *("activeDeadlineSeconds", "automountServiceAccountToken", "dnsConfig", "dnsPolicy"),
    *("enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostPID"),
    *("hostname", "hostnameOverride", "imagePullSecrets", "os", "readinessGates"),
    *("restartPolicy", "runtimeClassName", "securityContext", "serviceAccount"),
    *("serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain"),
    "terminationGracePeriodSeconds",
}
CONTAINER_FIELDS = {
    *("name", "resources", "ports", "restartPolicy"),
    *("image", "imagePullPolicy", "command", "args", "workingDir", "env", "envFrom", "lifecycle"),
    *("livenessProbe", "readinessProbe", "startupProbe", "resizePolicy", "restartPolicyRules"),
    *("securityContext", "stdin", "stdinOnce", "terminationMessagePath"),
    *("terminationMessagePolicy", "tty", "volumeDevices", "volumeMounts"),
}
PORT_FIELDS = ("containerPort", "hostPort", "hostIP", "name", "protocol")


class PriorityClass(Struct, frozen=True):
    """What a priority class gives a pod."""

    value: int
    never_preempts: bool = False


class WorkloadRef(Struct, frozen=True):
    """The pod group that a pod names; from 1.36 on without a workload. `min_count` is that of a
    group without an object, `part` the pod's part of the group.
    """

    workload: str
    group: str
    replica: str = ""
    min_count: int = 0
    part: str = ""

    def key(self, namespace: str) -> str:
        """Return `namespace/workload/group`, or `namespace/group`, followed by the replica key if
        there is one.
        """
        return "/".join(filter(None, (namespace, self.workload, self.group, self.replica)))


class Template(Struct, frozen=True, kw_only=True):
    """Everything about a pod except its name."""

    spec: PodSpec
    labels: tuple[tuple[str, str], ...] = ()
    node: str = ""
    gated: bool = False
    ref: WorkloadRef | None = None


BUILT_IN_CLASSES = {
    "system-cluster-critical": PriorityClass(SYSTEM_PRIORITY),
    "system-node-critical": PriorityClass(SYSTEM_PRIORITY + 1000),
}


def template_of(
    metadata: Fields,
    spec: Fields,
    classes: Mapping[str, PriorityClass],
    default: PriorityClass | None,
    shown: tuple[tuple[str, str], ...] = (),
    status: Fields | None = None,
    release: Release = DEFAULT_RELEASE,
) -> Template:
    """Read a pod's metadata.labels and spec. `shown` is what users' plugins read; `status` is that
    of a pod with a node, whose containers may have been resized. Without a default class admission
    has run already, so the pod's own priority counts.
    """
    spec.only(USED | PASSED_OVER)
    _check_containers(spec)
    amounts = effective(spec, status, release)
    gpu = take_gpu(spec, amounts.real)
    required, preferred = affinity.node_affinity(spec)
    chosen = priority_of(spec, classes, default)
    labels = metadata.mapping("labels")
    near, away, rather = pod_rules.affinity_of(spec, labels)
    pod_spec = PodSpec(
        priority=chosen.value,
        requests=tuple(sorted((name, n) for name, n in amounts.real.items() if n)),
        nonzero_cpu_milli=amounts.nonzero[CPU],
        nonzero_memory_bytes=amounts.nonzero[MEMORY],
        asked=_asked(amounts),
        asked_pages=_asked_pages(amounts),
        node_selector=tuple(sorted(spec.mapping("nodeSelector").items())),
        affinity_required=required,
        affinity_preferred=preferred,
        tolerations=affinity.tolerations(spec, release),
        host_ports=_host_ports(spec),
        gpu=gpu,
        never_preempts=chosen.never_preempts,
        scheduler=spec.text("schedulerName") or "default-scheduler",
        spread=pod_rules.spread_of(spec, labels),
        pod_affinity=near,
        pod_anti_affinity=away,
        pods_preferred=rather,
        images=_images(spec),
        image_volumes=_image_volumes(spec),
        shown=shown,
        volumes=volumes_of(spec),
        features=tuple(_features(spec)),
        claims=tuple(pod_claims(spec, NO_STATUS)),
    )
    return Template(
        spec=pod_spec,
        labels=tuple(sorted(labels.items())),
        node=spec.text("nodeName"),
        gated=_gated(spec),
        ref=_workload_ref(spec),
    )


def _asked(amounts: Effective) -> tuple[int, int] | None:
    pairs = [(one[CPU], one[MEMORY]) for one in (amounts.asked, amounts.nonzero)]
    return None if pairs[0] == pairs[1] else pairs[0]


def _asked_pages(amounts: Effective) -> tuple[tuple[str, int], ...]:
    """Return huge pages as they are scored, if they differ: pod-level ones are not scored."""
    pages = sorted(name for name in amounts.real if name.startswith(HUGE_PAGES))
    pairs = ((name, amounts.asked.get(name, 0)) for name in pages)
    return tuple((name, asked) for name, asked in pairs if asked != amounts.real[name])


def _check_containers(spec: Fields) -> None:
    for container in _all_containers(spec):
        container.only(CONTAINER_FIELDS)
        container.required_text("name")
    if not spec.has("containers") or not list(spec.children("containers")):
        raise spec.error("containers", "must not be empty")


def _all_containers(spec: Fields) -> Iterator[Fields]:
    yield from spec.children("initContainers")
    yield from spec.children("containers")


def _images(spec: Fields) -> tuple[str, ...]:
    """Return the images that are pulled before the pod runs, as nodes name them."""
    found = (container.text("image") for container in _all_containers(spec))
    return tuple(sorted(map(canonical, found)))


def _image_volumes(spec: Fields) -> tuple[str, ...]:
    found = (
        volume.child("image").text("reference")
        for volume in spec.children("volumes")
        if volume.has("image")
    )
    return tuple(sorted(map(canonical, found)))


def _features(spec: Fields) -> Iterator[str]:
    """Yield the features of a kubelet that the pod needs, sorted."""
    rules = (one for each in _all_containers(spec) for one in each.children("restartPolicyRules"))
    if any(rule.text("action") == "RestartAllContainers" for rule in rules):
        yield RESTART_ALL_CONTAINERS
    if spec.flag("hostNetwork") and not spec.flag("hostUsers", default=True):
        yield USER_NAMESPACES_ON_HOST_NETWORK


def priority_of(
    spec: Fields, classes: Mapping[str, PriorityClass], default: PriorityClass | None
) -> PriorityClass:
    """Return the priority, with the rules and messages of the admission plugin Priority."""
    name = spec.text("priorityClassName")
    found = default or PriorityClass(0)
    if name and default is not None:
        known = classes.get(name) or BUILT_IN_CLASSES.get(name)
        if known is None:
            raise spec.error("priorityClassName", f"no PriorityClass {shown(name)} in this world")
        found = known
    high = SYSTEM_PRIORITY + 1000
    value = spec.integer("priority", found.value, -(1 << 31), high)
    policy = spec.one_of("preemptionPolicy", ("", NEVER, PREEMPTS), "")
    if default is None:
        return PriorityClass(value, policy == NEVER)
    if value != found.value:
        raise spec.error("priority", _not_given("integer value of priority", value, found.value))
    computed = NEVER if found.never_preempts else PREEMPTS
    if policy and policy != computed:
        rule = _not_given("string value of PreemptionPolicy", policy, computed)
        raise spec.error("preemptionPolicy", rule)
    return found


def _not_given(what: str, given: object, computed: object) -> str:
    return (
        f"the {what} ({given}) must not be provided in pod spec; priority admission controller "
        f"computed {computed} from the given PriorityClass name"
    )


def _host_ports(spec: Fields) -> tuple[HostPort, ...]:
    on_host = spec.flag("hostNetwork")
    found: set[HostPort] = set()
    for container in _all_containers(spec):
        sidecar = container.text("restartPolicy") == "Always"
        is_init = "initContainers" in container.path
        for port in container.children("ports"):
            port.only(PORT_FIELDS)
            inner = port.integer("containerPort", 0, 1, PORT_MAX)
            if not inner:
                raise port.error("containerPort", "is required")
            outer = port.integer("hostPort", inner if on_host else 0, 0, PORT_MAX)
            protocol = port.one_of("protocol", ("TCP", "UDP", "SCTP"), "TCP")
            if outer and (sidecar or not is_init):
                found.add(HostPort(outer, protocol, port.text("hostIP") or "0.0.0.0"))
    return tuple(sorted(found, key=lambda p: (p.port, p.protocol, p.ip)))


def _gated(spec: Fields) -> bool:
    gates = list(spec.children("schedulingGates"))
    for gate in gates:
        gate.only(("name",))
        gate.required_text("name")
    return bool(gates)


def _workload_ref(spec: Fields) -> WorkloadRef | None:
    if spec.has("schedulingGroup"):
        if spec.has("workloadRef"):
            raise spec.error("schedulingGroup", "must not be given beside workloadRef")
        group = spec.child("schedulingGroup")
        group.only(("podGroupName",))
        return WorkloadRef("", group.required_text("podGroupName"))
    if not spec.has("workloadRef"):
        return None
    ref = spec.child("workloadRef")
    ref.only(("name", "podGroup", "podGroupReplicaKey"))
    return WorkloadRef(
        ref.required_text("name"), ref.required_text("podGroup"), ref.text("podGroupReplicaKey")
    )


def duration_ms(annotations: Fields, key: str, default_ms: int) -> int:
    """Return a duration such as 500ms, 5s, 2m or 1h of an annotation, in milliseconds."""
    text = annotations.text(key)
    if not text:
        return default_ms
    for suffix, factor in (("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)):
        number = text.removesuffix(suffix)
        if number != text:
            try:
                amount = quantities.parse(number) if number.replace(".", "").isdigit() else None
            except ValueError:
                amount = None
            if amount is None:
                break
            if amount * factor > SECONDS_MAX * 1000:
                raise annotations.error(key, f"{shown(text)} is out of range")
            return int(amount * factor)
    raise WorldError(
        annotations.what,
        annotations.at(key),
        f"{shown(text)} is not a duration such as 500ms, 5s or 2m",
    )
