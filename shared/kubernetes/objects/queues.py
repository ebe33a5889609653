"""Reads Queues of Muster, from a live API and from files alike."""

from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.quantities import INT64_MAX
from shared.kubernetes.objects.requests import GPU_MILLI, GPU_WHOLE_MILLI
from shared.kubernetes.objects.volume_objects import identity
from shared.model.cluster_objects import Queue
from shared.model.objects import GPU

QUEUES_VERSION = "muster.io/v1alpha1"


def queue(document: Fields) -> Queue:
    """Return a Queue. Raises WorldError."""
    spec = document.child("spec")
    spec.only(("parent", "max", "guaranteed"))
    return Queue(
        **identity(document),
        parent=spec.text("parent"),
        max=_amounts(spec, "max"),
        guaranteed=_amounts(spec, "guaranteed"),
    )


def _amounts(spec: Fields, key: str) -> tuple[tuple[str, int], ...]:
    within, found = spec.child(key), spec.amounts(key)
    for name, amount in found.items():
        if name == GPU_MILLI:
            raise within.error(name, f"is counted as {GPU}")
        if name == GPU and amount > INT64_MAX // GPU_WHOLE_MILLI:
            raise within.error(name, "is out of range")
    if GPU in found:
        found[GPU] *= GPU_WHOLE_MILLI
    return tuple(sorted(found.items()))
