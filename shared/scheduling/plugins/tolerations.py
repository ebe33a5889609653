"""When a toleration covers a taint (the API's rule, shared by two plugins)."""

from shared.model.objects import Taint, Toleration
from shared.model.text import integer


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether the toleration covers the taint. An empty key with Exists covers every key, an
    empty effect every effect. Gt and Lt compare the taint's value with the toleration's.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    asked, found = integer(toleration.value), integer(taint.value)
    if asked is None or found is None:
        return False
    return found > asked if toleration.operator == "Gt" else found < asked


def tolerated(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Return whether any of a pod's tolerations covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)
