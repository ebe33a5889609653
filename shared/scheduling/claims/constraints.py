"""Constraints between the devices of a claim: equal or different values of an attribute."""

from shared.model.claims import Attribute, Constraint


class Bound:
    """A constraint, with the values of the devices that are chosen so far.

    A device that lacks the attribute fits neither kind. Values of different kinds are not equal.
    """

    def __init__(self, given: Constraint) -> None:
        self._names = frozenset(given.requests)
        self._must_match = bool(given.match)
        self._attribute = given.match or given.distinct
        self._values: list[Attribute] = []

    def applies(self, request: str, alternative: str) -> bool:
        """Return whether a request is among those of the constraint, itself or by its choice."""
        names = self._names
        return not names or request in names or f"{request}/{alternative}" in names

    def add(self, request: str, alternative: str, attributes: dict[str, Attribute]) -> bool:
        """Return whether a device fits, and count it then."""
        if not self.allows(request, alternative, attributes):
            return False
        if self.applies(request, alternative):
            self._count(request, attributes[self._attribute])
        return True

    def allows(self, request: str, alternative: str, attributes: dict[str, Attribute]) -> bool:
        """Return whether a device fits."""
        if not self.applies(request, alternative):
            return True
        value = attributes.get(self._attribute)
        return value is not None and self._fits(value)

    def _fits(self, value: Attribute) -> bool:
        if self._must_match:
            return not self._values or value == self._values[0]
        return value not in self._values

    def _count(self, request: str, value: Attribute) -> None:
        self._values.append(value)

    def remove(self, request: str, alternative: str) -> None:
        """Forget the device that was added last for this request."""
        if self.applies(request, alternative):
            self._forget(request)

    def _forget(self, request: str) -> None:
        self._values.pop()


class BoundByRequest(Bound):
    """Different values as 1.36 counts them: only the last device of each request."""

    def __init__(self, given: Constraint) -> None:
        super().__init__(given)
        self._last: dict[str, Attribute] = {}

    def _fits(self, value: Attribute) -> bool:
        return not self._values or value not in self._last.values()

    def _count(self, request: str, value: Attribute) -> None:
        super()._count(request, value)
        self._last[request] = value

    def _forget(self, request: str) -> None:
        super()._forget(request)
        self._last.pop(request, None)
