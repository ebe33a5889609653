"""The age of the messages of waiting pods: queueing's and binding's cores with a live cluster's
configuration, a shard that always refuses, and a server with a delay.
"""

from collections import defaultdict
from typing import Any

import pytest

from muster.cli.addresses.kube import kube_config
from services.binding.core.conditions.status_patches import REFRESHES_PER_S
from services.binding.core.core import BindingCore
from services.queueing.core.core import QueueingCore
from shared.events.base import Configured, Event
from shared.events.binding import FencesAsked
from shared.events.ingest import PodsNamed, PodsPending, SignatureDefined
from shared.events.observed import BindAnswers
from shared.events.placement import Refused
from shared.events.queueing import Confirmed, Dispatched, Parked, ReasonsAsked
from shared.model.columns import join, pack, unpack
from shared.model.objects import PodSpec
from tests.support.steps import Steps

BEGIN_MS, END_MS, ANSWER_MS = 1_000, 290_000, 20
REASONS = (("Insufficient cpu", 3),)


def refused(ids: bytes, attempt: int) -> Refused:
    return Refused(0, attempt, 1, ids, REASONS, 3, 0, resolvable=3)


class Both:
    """The two cores; `writes` are the times of each pod's message."""

    def __init__(self) -> None:
        config = kube_config({}, ())
        self.queueing: Any = Steps(QueueingCore(1)).at(BEGIN_MS).given(Configured(config))
        self.binding: Any = Steps(BindingCore(1)).at(BEGIN_MS).given(Configured(config))
        self.queueing.given(SignatureDefined(1, PodSpec()))
        self.answers: list[tuple[int, FencesAsked]] = []
        self.writes: dict[int, list[int]] = defaultdict(list)

    def run(self, pods: range) -> None:
        """These pods come, and wait until the end."""
        ids, names = pack(pods), join(map(str, pods))
        self.binding.given(PodsNamed(ids, names, names, pack([1] * len(pods))))
        now_ms = BEGIN_MS
        news: list[Event] = [PodsPending(1, ids, 0)]
        while now_ms < END_MS:
            news = self._turn(now_ms, news)
            if not news:
                cores = (self.queueing, self.binding)
                times = [steps.core.due_ms(steps.state) for steps in cores]
                times += [at_ms for at_ms, _event in self.answers]
                now_ms = max(now_ms, min(at_ms for at_ms in times if at_ms is not None))

    def _turn(self, now_ms: int, news: list[Event]) -> list[Event]:
        """Return the shard's answers to queueing's events."""
        said = self.queueing.when(*news, at_ms=now_ms)
        answers = [self._answer(event) for at_ms, event in self.answers if at_ms <= now_ms]
        self.answers = [one for one in self.answers if one[0] > now_ms]
        messages = [event for event in said if isinstance(event, Parked | Confirmed)]
        for event in self.binding.when(*answers, *messages, at_ms=now_ms):
            assert isinstance(event, FencesAsked)
            self.answers.append((now_ms + ANSWER_MS, event))
            for pod in unpack(event.ids).tolist():
                self.writes[pod].append(now_ms)
        dispatched = [event for event in said if isinstance(event, Dispatched)]
        asked = [event for event in said if isinstance(event, ReasonsAsked)]
        return [
            *(refused(one.ids, one.attempt) for one in dispatched),
            *(refused(b"", 0) for _ in asked),
        ]

    def _answer(self, event: FencesAsked) -> BindAnswers:
        pods = len(unpack(event.ids))
        return BindAnswers(
            event.effect, event.ids, bytes(pods), pack([9] * pods), pack([-1] * pods)
        )

    def oldest_s(self) -> float:
        """How old any message ever got."""
        return max(
            (after - before) / 1_000
            for times in self.writes.values()
            for before, after in zip(times, [*times[1:], END_MS], strict=True)
        )


@pytest.mark.parametrize("count", [1, 500, 900, 1_500])
def test_messages_are_no_older_than_a_minute(count: int):
    both = Both()
    both.run(range(1, count + 1))
    assert len(both.writes) == count
    assert both.oldest_s() <= 60
    again = sum(map(len, both.writes.values())) - count
    assert again <= REFRESHES_PER_S * (END_MS - BEGIN_MS) / 1_000


@pytest.mark.parametrize("count", [1, 300])
def test_a_few_messages_are_rewritten_every_forty_seconds(count: int):
    both = Both()
    both.run(range(1, count + 1))
    expected = (END_MS - BEGIN_MS) // 40_000
    assert {len(times) - 1 for times in both.writes.values()} == {expected}
