"""What slices and claims have in common: names, amounts, and the refusal of fields."""

from collections.abc import Iterable

from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.scheduling.claims.cel.values import quantity

ID_MAX, DOMAIN_MAX = 32, 63


def only(fields: Fields, known: Iterable[str], later: Iterable[str]) -> None:
    """Raise WorldError for unknown fields, and for those that Muster does not support yet."""
    later = tuple(later)
    for name in later:
        if fields.values.get(name) not in (None, False, [], {}):
            raise fields.error(name, "is not supported by muster yet")
    fields.only((*known, *later))


def full_name(fields: Fields, name: str) -> str:
    """Return the name of an attribute or capacity: `id`, or `domain/id`. Raises WorldError."""
    domain, slash, word = name.rpartition("/")
    is_id = len(word) <= ID_MAX and word.isidentifier() and word.isascii()
    if not is_id or (slash and not 0 < len(domain) <= DOMAIN_MAX):
        raise fields.error(name, "must be an identifier, or a domain, a slash and an identifier")
    return name


def amount(fields: Fields, key: str) -> int:
    """Return an amount in billionths. Raises WorldError."""
    value = fields.values.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise fields.error(key, f"{shown(value)} is not a quantity (such as 500m, 2 or 1.5Gi)")
    try:
        return quantity(value.strip() if isinstance(value, str) else repr(value)).nano
    except ValueError as error:
        raise fields.error(key, str(error)) from error
