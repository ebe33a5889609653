"""The claims that a StatefulSet makes of its templates: one of each for every pod."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from shared.kubernetes.objects import volume_objects
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.model.cluster_objects import PersistentVolumeClaim
from shared.model.volumes import ClaimUse

TEMPLATES = "volumeClaimTemplates"
KIND = "PersistentVolumeClaim"


def template_names(spec: Fields) -> tuple[str, ...]:
    """Return the names of the templates in a StatefulSet's spec, in order."""
    names: list[str] = []
    for one in spec.children(TEMPLATES):
        metadata = one.child("metadata")
        name = metadata.required_text("name")
        if name in names:
            raise metadata.error("name", f"{shown(name)} is the name of another template")
        names.append(name)
    return tuple(names)


def uses_of(names: Iterable[str], pod: str) -> tuple[ClaimUse, ...]:
    """Return the claims that a pod of the set uses."""
    return tuple(ClaimUse(_claim_name(name, pod)) for name in names)


def without_replaced(spec: Fields, names: tuple[str, ...]) -> Fields:
    """Return a pod's spec without the volumes named like a template: the claim replaces them."""
    volumes = list(spec.children("volumes"))
    kept = [one.values for one in volumes if one.text("name") not in names]
    if len(kept) == len(volumes):
        return spec
    return Fields(spec.what, spec.path, {**spec.values, "volumes": kept})


def claims_of(spec: Fields, namespace: str, pods: Iterable[str]) -> Iterator[PersistentVolumeClaim]:
    """Yield the claims of the pods with these names."""
    template_names(spec)
    made = [_read(one, namespace) for one in spec.children(TEMPLATES)]
    for pod in pods:
        for one in made:
            name = _claim_name(one.name, pod)
            yield replace(one, name=name, uid=f"{KIND}.{namespace}.{name}")


def _claim_name(template: str, pod: str) -> str:
    """Return NAME-SET-ORDINAL, where the pod is SET-ORDINAL."""
    return f"{template}-{pod}"


def _read(template: Fields, namespace: str) -> PersistentVolumeClaim:
    template.only(("apiVersion", "kind", "metadata", "spec", "status"))
    metadata = template.child("metadata").values | {"uid": KIND, "namespace": namespace}
    claim = volume_objects.claim(
        Fields(template.what, template.path, {**template.values, "metadata": metadata})
    )
    assert isinstance(claim, PersistentVolumeClaim)
    return claim
