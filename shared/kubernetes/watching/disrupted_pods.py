"""Pods whose eviction a disruption budget has already counted (`status.disruptedPods`).

The budget lists them by name; events carry their uids, which are read from the API.
"""

from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from shared.adapters.structured_gather import gather_all
from shared.events.base import Event
from shared.events.observed import BudgetsDeletedSeen, BudgetsSeen
from shared.kubernetes.client.client import ApiError, KubeClient
from shared.kubernetes.objects.structs import Meta
from shared.model.objects import Budget


class _Object(msgspec.Struct):
    metadata: Meta


class DisruptedPods:
    """Remembers the uid of each name for as long as a budget lists the name."""

    def __init__(self, client: KubeClient) -> None:
        """Start without any uids."""
        self._client = client
        self._uids: dict[str, dict[str, str]] = {}  # by the budget's uid, then by the pod's name

    async def known(self, events: Iterable[Event]) -> tuple[Event, ...]:
        """Return the events with uids in place of names. Raises ConnectionError, TimeoutError."""
        return tuple([await self._resolve(one) for one in events])

    async def _resolve(self, event: Event) -> Event:
        if isinstance(event, BudgetsSeen):
            return BudgetsSeen(tuple([await self._with_uids(one) for one in event.budgets]))
        if isinstance(event, BudgetsDeletedSeen):
            self._uids.pop(event.uids, None)
        return event

    async def _with_uids(self, budget: Budget) -> Budget:
        before = self._uids.pop(budget.uid, {})
        if not budget.disrupted:
            return budget
        missing = [name for name in budget.disrupted if name not in before]
        found = await gather_all(*(self._uid(budget.namespace, name) for name in missing))
        uids = before | dict(zip(missing, found, strict=True))
        uids = self._uids[budget.uid] = {name: uids[name] for name in budget.disrupted}
        return msgspec.structs.replace(budget, disrupted=tuple(filter(None, uids.values())))

    async def _uid(self, namespace: str, name: str) -> str:
        """Return a pod's uid; empty when there is no such pod."""
        try:
            body = await self._client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return ""
            raise
        return msgspec.json.decode(body, type=_Object).metadata.uid
