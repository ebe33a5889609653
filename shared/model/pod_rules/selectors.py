"""Label selectors: one rule for budgets, spread constraints and affinity."""

from collections.abc import Mapping

from shared.model.objects import Requirement, Selector


def holds(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet every requirement; with none every object does."""
    return all(_fulfils(one, labels.get(one.key)) for one in selector)


def _fulfils(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:  # Gt and Lt are for nodes only
            return False
