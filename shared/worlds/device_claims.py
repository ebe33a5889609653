"""Classes, slices, taint rules and claims of devices in manifests, and the claims that pods get
from templates: they exist from the start, named POD-CLAIM, as if the resourceclaim controller had
made them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from shared.kubernetes.objects.claims.claims import claim_template
from shared.kubernetes.objects.claims.watched import (
    CLAIM,
    CLASS,
    SLICE,
    TAINT_RULE,
    watched_claim,
    watched_class,
    watched_slice,
    watched_taint_rule,
)
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.volume_objects import identified
from shared.model.claims import ClaimName, ClaimSpec, ResourceClaim
from shared.model.cluster_objects import ClaimObject, DeviceObject
from shared.worlds.arrivals import Pod, uid_of

TEMPLATE = "ResourceClaimTemplate"
WATCHED = (CLASS, SLICE, CLAIM, TAINT_RULE)
DEVICE_KINDS = (*WATCHED, TEMPLATE)


class Given(Protocol):
    """An object of a file."""

    kind: str
    namespace: str
    document: Fields


def device_objects(given: Sequence[Given], pods: Iterable[Pod]) -> Iterator[DeviceObject]:
    """Yield the objects of devices, and the claims of these pods. Raises WorldError."""
    known: set[ClaimName] = set()
    templates: dict[ClaimName, ClaimSpec] = {}
    for one in given:
        document = identified(one.document, one.kind in (CLAIM, TEMPLATE))
        document.only(("apiVersion", "kind", "metadata", "spec", "status"))
        if one.kind == CLASS:
            yield watched_class(document)
        elif one.kind == SLICE:
            yield watched_slice(document)
        elif one.kind == TAINT_RULE:
            yield watched_taint_rule(document)
        elif one.kind == CLAIM:
            claim = watched_claim(document)
            if claim.problem:
                raise WorldError(document.what, *claim.problem.split(": ", 1))
            known.add(claim.value.key)
            yield claim
        else:
            template = claim_template(document, one.namespace)
            templates[template.namespace, template.name] = template.spec
    for pod in pods:
        yield from _made_for(pod, templates, known)


def _made_for(
    pod: Pod, templates: dict[ClaimName, ClaimSpec], known: set[ClaimName]
) -> Iterator[ClaimObject]:
    for use in pod.spec.claims:
        if not use.made or (pod.namespace, use.made) in known:
            continue
        known.add((pod.namespace, use.made))
        spec = templates.get((pod.namespace, use.template))
        if spec is None:
            rule = f"no {TEMPLATE} {use.template} in this world"
            raise WorldError(f"Pod {pod.namespace}/{pod.name}", "spec.resourceClaims", rule)
        uid = f"{CLAIM}.{pod.namespace}.{use.made}"
        value = ResourceClaim(pod.namespace, use.made, uid, spec, owner=uid_of(pod))
        yield ClaimObject(uid=uid, name=use.made, namespace=pod.namespace, value=value)
