"""The releases of kube-scheduler that Muster decides like, and their feature gates.

Source: pkg/features/kube_features.go of 1.35.4, 1.36.3 and 1.37.2.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from shared.model.text import did_you_mean

VERSIONS = (V1_35, V1_36, V1_37) = ("1.35", "1.36", "1.37")
"""Oldest first; they compare as strings."""

COMPOSITE_POD_GROUP = "CompositePodGroup"
NODE_DECLARED_FEATURES = "NodeDeclaredFeatures"
POD_LEVEL_RESIZE = "InPlacePodLevelResourcesVerticalScaling"
STORAGE_CAPACITY_SCORING = "StorageCapacityScoring"
TAINT_COMPARISON = "TaintTolerationComparisonOperators"
VOLUME_LIMIT_SCALING = "VolumeLimitScaling"

FOLLOWED = "followed"
"""Decisions differ by this gate as kube-scheduler's do."""
ALIKE = "alike"
"""Decisions are the same with and without it."""
ALWAYS = "always"
"""Muster cannot do without it."""
MISSING = "missing"
"""Muster does not have it."""

_STAGES = {"on": True, "locked": True, "off": False}
# Gate: its default in each of VERSIONS (- where it does not exist; a locked one cannot be
# changed), and what Muster makes of it.
_GATES: dict[str, tuple[str, str]] = {
    "ClearingNominatedNodeNameAfterBinding": ("on on on", ALIKE),
    "ComponentFlagz": ("off on on", ALIKE),
    "ComponentStatusz": ("off on on", ALIKE),
    COMPOSITE_POD_GROUP: ("- - off", FOLLOWED),
    "DRAAdminAccess": ("on locked locked", MISSING),
    "DRAConsumableCapacity": ("off on on", MISSING),
    "DRADerivedAttributes": ("- - off", MISSING),
    "DRADeviceBindingConditions": ("off on on", MISSING),
    "DRADeviceCompatibilityGroups": ("- - off", MISSING),
    "DRADeviceTaintRules": ("off off locked", MISSING),
    "DRADeviceTaints": ("off on locked", MISSING),
    "DRAExtendedResource": ("off on locked", MISSING),
    "DRAFractionalCapacityRange": ("- - off", MISSING),
    "DRAListTypeAttributes": ("- off off", MISSING),
    "DRANodeAllocatableResources": ("- off off", MISSING),
    "DRAOptionalNodeOperations": ("- - off", MISSING),
    "DRAPartitionableDevices": ("off on on", MISSING),
    "DRAPartitionableDevicesType": ("- - off", MISSING),
    "DRAPrioritizedList": ("on on locked", MISSING),
    "DRAResourceClaimDeviceStatus": ("on on locked", MISSING),
    "DRAResourceClaimGranularStatusAuthorization": ("- on on", MISSING),
    "DRAResourcePoolStatus": ("- off off", MISSING),
    "DRASchedulerFilterTimeout": ("on on on", MISSING),
    "DRAWorkloadResourceClaims": ("- off off", MISSING),
    "DynamicResourceAllocation": ("locked locked locked", MISSING),
    "GangScheduling": ("off off -", ALWAYS),
    "GenericWorkload": ("off off off", ALWAYS),
    "ImageVolume": ("on locked locked", ALWAYS),
    POD_LEVEL_RESIZE: ("off on on", FOLLOWED),
    "InPlacePodVerticalScaling": ("locked locked locked", ALWAYS),
    "InPlacePodVerticalScalingSchedulerPreemption": ("- - off", MISSING),
    "InterPodAffinityHostnameFastPath": ("- - off", ALIKE),
    "MatchLabelKeysInPodTopologySpread": ("on on on", ALWAYS),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("on on on", ALIKE),
    "MutableCSINodeAllocatableCount": ("on locked locked", ALIKE),
    NODE_DECLARED_FEATURES: ("off on locked", FOLLOWED),
    "NominatedNodeNameForExpectation": ("on on on", ALIKE),
    "OpportunisticBatching": ("on on on", ALIKE),
    "PodGroupPreemptionPolicy": ("- - off", MISSING),
    "PodLevelResources": ("on on on", ALWAYS),
    "PodLevelResourcesFixDefaulting": ("- - on", ALIKE),
    "PodTopologyLabelsAdmission": ("on on on", ALIKE),
    "SchedulerAsyncAPICalls": ("off off off", ALIKE),
    "SchedulerAsyncPreemption": ("on on on", ALWAYS),
    "SchedulerPopFromBackoffQ": ("on on on", ALWAYS),
    "SchedulerPreQueueingHints": ("- - off", ALIKE),
    "SchedulerQueueingHints": ("locked locked -", ALWAYS),
    STORAGE_CAPACITY_SCORING: ("off off on", FOLLOWED),
    TAINT_COMPARISON: ("off off off", FOLLOWED),
    "TopologyAwareWorkloadScheduling": ("- off off", ALWAYS),
    VOLUME_LIMIT_SCALING: ("off off on", FOLLOWED),
    "WorkloadAwarePreemption": ("- off -", ALWAYS),
    "WorkloadWithJob": ("- off off", ALIKE),
}


class Release(Struct, frozen=True):
    """A release of kube-scheduler, and which of the gates that Muster follows are on."""

    version: str
    gates: frozenset[str]

    def has(self, gate: str) -> bool:
        """Return whether a gate that Muster follows is on."""
        return gate in self.gates


def release(version: str, gates: Mapping[str, bool]) -> Release:
    """Return a release with its default gates, but for those given.

    Raises ValueError naming the version or the gate: an unknown one, one that is locked, one that
    Muster lacks and that is switched on, and one that Muster always has and that is switched off.
    """
    if version not in VERSIONS:
        raise ValueError(f"compatibility must be one of {', '.join(VERSIONS)}")
    for name, is_on in gates.items():
        _check(version, name, is_on=is_on)
    on = {
        name
        for name, (_, kind) in _GATES.items()
        if kind == FOLLOWED and gates.get(name, _STAGES.get(_stage(name, version), False))
    }
    return Release(version, frozenset(on))


def _stage(name: str, version: str) -> str:
    stages, _ = _GATES[name]
    return stages.split()[VERSIONS.index(version)]


def _check(version: str, name: str, *, is_on: bool) -> None:
    later = [one for one in VERSIONS if name in _GATES and _stage(name, one) != "-"]
    if later and version not in later:
        others = ", ".join(later)
        raise ValueError(f"feature gate {name}: is not in {version}, only in {others}")
    if not later:
        guess = did_you_mean(name, [one for one in _GATES if _stage(one, version) != "-"])
        raise ValueError(f"feature gate {name}: no such gate of scheduling in {version}{guess}")
    stage = _stage(name, version)
    if stage == "locked" and not is_on:
        raise ValueError(f"feature gate {name}: is locked to true in {version}")
    _, kind = _GATES[name]
    if kind == MISSING and is_on and stage != "locked":
        raise ValueError(f"feature gate {name}: Muster does not have it")
    if kind == ALWAYS and not is_on:
        raise ValueError(f"feature gate {name}: Muster always has it")


DEFAULT_RELEASE = release(V1_35, {})


class ReleaseOptions(Struct, frozen=True, kw_only=True):
    """`compatibility`: the version of kube-scheduler that decisions follow. `feature_gates`: those
    that are not as that version's defaults.
    """

    compatibility: str = V1_35
    feature_gates: dict[str, bool] = {}

    def __post_init__(self) -> None:
        release(self.compatibility, self.feature_gates)

    def release(self) -> Release:
        """Return the release with its gates."""
        return release(self.compatibility, self.feature_gates)


DEFAULT_OPTIONS = ReleaseOptions()


def version_of(config: Mapping[str, Any]) -> str:
    """Return the version that shards follow with these options of the services."""
    return str(config.get("placement", {}).get("compatibility", DEFAULT_OPTIONS.compatibility))
