"""Devices that drivers publish, and claims to them (resource.k8s.io/v1).

Names of attributes and capacities are as published: `id`, or `domain/id`. Amounts are billionths in
decimal, as text: they exceed 64 bits.
"""

from typing import Literal

from msgspec import Struct

from shared.model.objects import SelectorTerm

RESULTS_MAX = 32
"""The number of devices that one claim can have."""
ALTERNATIVES_MAX = 8
"""The number of alternatives in a request."""

AttributeKind = Literal["bool", "int", "string", "version"]
DeviceId = tuple[str, str, str]
"""Driver, pool and name of a device."""
Amounts = tuple[tuple[str, str], ...]
"""Names with amounts."""
ClaimName = tuple[str, str]
"""Namespace and name of a claim."""


class Attribute(Struct, frozen=True, omit_defaults=True):
    """The value of an attribute; a version is a text."""

    kind: AttributeKind
    value: bool | int | str


class DeviceTaint(Struct, frozen=True, omit_defaults=True):
    """A taint of a device; only the effects NoSchedule and NoExecute reject requests."""

    key: str
    value: str
    effect: str


class DeviceTaintRule(Struct, frozen=True, omit_defaults=True):
    """A taint of all devices of a driver, of a pool, or with a name; None stands for any. A rule
    without a selector (`selects` False) taints none.
    """

    taint: DeviceTaint
    selects: bool = True
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceToleration(Struct, frozen=True, omit_defaults=True):
    """A toleration of a request; an empty key or effect matches all. `seconds`: how long a device
    is kept with such a taint.
    """

    key: str
    operator: Literal["Equal", "Exists"]
    value: str
    effect: str
    seconds: int | None = None


class Reach(Struct, frozen=True, omit_defaults=True):
    """The nodes that reach a slice or device: one by its name, all, or those of a term."""

    node: str = ""
    all_nodes: bool = False
    term: SelectorTerm | None = None


class CounterSet(Struct, frozen=True, omit_defaults=True):
    """Counters by name: those of a pool, or what a device consumes of them. Amounts are billionths
    in decimal, as text: they exceed 64 bits.
    """

    name: str
    counters: Amounts = ()


class CapacityPolicy(Struct, frozen=True, omit_defaults=True):
    """How much of a capacity a share consumes: `default` if it asks for nothing, else one of
    `values`, or `least` and whole steps above it up to `most`. Amounts are as in
    CounterSet, empty for none.
    """

    name: str
    default: str = ""
    values: tuple[str, ...] = ()
    has_range: bool = False
    least: str = ""
    most: str = ""
    step: str = ""


class Device(Struct, frozen=True, omit_defaults=True, rename={"reach": "place"}):
    """One device; `reach` counts only in slices whose devices have one each. `consumes`: what it
    takes from its pool's counters, which other devices need as well. `is_shared`: several claims
    may have shares of its capacity, within `policies`. Journals have `reach` as `place`.
    """

    name: str
    attributes: tuple[tuple[str, Attribute], ...] = ()
    capacity: tuple[tuple[str, str], ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    reach: Reach = Reach()
    consumes: tuple[CounterSet, ...] = ()
    is_shared: bool = False
    policies: tuple[CapacityPolicy, ...] = ()


class ResourceSlice(Struct, frozen=True, omit_defaults=True, rename={"reach": "place"}):
    """Some of a pool's devices, or `counters` that they share. The pool is complete with
    `slice_count` slices of the newest `generation`; without a `reach` each device has one.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    reach: Reach | None
    devices: tuple[Device, ...]
    counters: tuple[CounterSet, ...] = ()


class DeviceConfig(Struct, frozen=True, omit_defaults=True):
    """Parameters for a driver, as JSON text; without requests they apply to all."""

    driver: str
    parameters: str
    requests: tuple[str, ...] = ()


class DeviceClass(Struct, frozen=True, omit_defaults=True):
    """Selectors (CEL) that a device of the class meets, and parameters."""

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


class Wanted(Struct, frozen=True, omit_defaults=True):
    """Devices of a class that meet selectors: `count` of them, or all if it is None. `capacity`:
    what is asked of each.
    """

    device_class: str
    name: str = ""
    count: int | None = 1
    selectors: tuple[str, ...] = ()
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Amounts = ()


class Request(Struct, frozen=True, omit_defaults=True):
    """What a claim asks for: `wanted`, or the first of several (`has_choice`) that is available."""

    name: str
    wanted: tuple[Wanted, ...]
    has_choice: bool = False


class Constraint(Struct, frozen=True, omit_defaults=True):
    """The devices of these requests (of all, if there are none) have the same value of `match`, or
    different ones of `distinct`. Names are `domain/id`.
    """

    requests: tuple[str, ...] = ()
    match: str = ""
    distinct: str = ""


class DeviceResult(Struct, frozen=True):
    """A device for a request (`REQUEST`, or `REQUEST/ALTERNATIVE`), or a share of it that consumes
    some of its capacity.
    """

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    share_id: str = ""
    consumed: Amounts = ()

    @property
    def id(self) -> DeviceId:
        """Return the device's identity."""
        return self.driver, self.pool, self.device


class AllocatedConfig(Struct, frozen=True, omit_defaults=True):
    """Parameters that apply to an allocation, of the class or of the claim (`source`)."""

    source: Literal["FromClass", "FromClaim"]
    config: DeviceConfig


class Allocation(Struct, frozen=True, omit_defaults=True):
    """What a claim has. Pods that use it fit the nodes of any of the terms; all without terms."""

    results: tuple[DeviceResult, ...] = ()
    config: tuple[AllocatedConfig, ...] = ()
    nodes: tuple[SelectorTerm, ...] | None = None


class ClaimSpec(Struct, frozen=True, omit_defaults=True):
    """What a claim, or each claim of a template, asks for."""

    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[DeviceConfig, ...] = ()


class ResourceClaim(Struct, frozen=True, omit_defaults=True):
    """A claim; `owner` is the uid of its controller."""

    namespace: str
    name: str
    uid: str
    spec: ClaimSpec
    owner: str = ""
    is_deleted: bool = False
    allocation: Allocation | None = None

    @property
    def key(self) -> ClaimName:
        """Return namespace and name."""
        return self.namespace, self.name

    @property
    def shown(self) -> str:
        """Return NAMESPACE/NAME."""
        return f"{self.namespace}/{self.name}"


class ClaimTemplate(Struct, frozen=True, omit_defaults=True):
    """What the claims are like that pods get by this name."""

    namespace: str
    name: str
    spec: ClaimSpec


class ClaimChoice(Struct, frozen=True, omit_defaults=True):
    """What is written for a claim before its pod is bound: the devices, or (None) only that the pod
    uses it, as it has devices already. With the uid, so that no other claim of the name is written,
    and the resourceVersion: devices are written to no other version of the claim.
    """

    namespace: str
    name: str
    uid: str
    revision: int = 0
    allocation: Allocation | None = None
