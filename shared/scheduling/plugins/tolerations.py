"""When a toleration covers a taint (the API's rule, shared by two plugins)."""

from shared.model.objects import Taint, Toleration


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether the toleration covers the taint. An empty key with Exists covers every key, an
    empty effect every effect.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def tolerated(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Return whether any of a pod's tolerations covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)
