"""Users' queue plugins (PreEnqueue, QueueSort): asked here once for each signature, and published.

The answer follows from the spec and the configuration; the signature keeps it.
"""

import msgspec
import numpy as np

from services.ingest.core.state import IngestState, Signature
from shared.events.ingest import PodsPending, SignaturesQueued
from shared.model.columns import I64, pack
from shared.model.ids import GangId, PodId, SignatureId
from shared.model.objects import PodSpec
from shared.scheduling.api.custom.queue import QueuePlugins

_decoder = msgspec.msgpack.Decoder(PodSpec)


def choose_plugins(state: IngestState) -> None:
    """Load the configured plugins. Raises PluginMissing."""
    config, state.queue_plugins = state.config, None
    if config.pre_enqueue or config.queue_sort is not None:
        state.queue_plugins = QueuePlugins(config.pre_enqueue, config.queue_sort)


def queued_as(state: IngestState, spec: PodSpec) -> tuple[int, str] | None:
    """Return order and gate of such pods if a plugin changes them, else None."""
    plugins, schedulers = state.queue_plugins, state.config.schedulers
    if plugins is None or (schedulers and spec.scheduler not in schedulers):
        return None
    answer = plugins.order(spec), plugins.gate(spec)
    return None if answer == (spec.priority, "") else answer


def publish_queued(state: IngestState, held: Signature, spec: PodSpec) -> None:
    """Publish the plugins' answers about a new signature."""
    held.queued = queued_as(state, spec)
    if held.queued is not None:
        order, gate = held.queued
        state.outbox.append(SignaturesQueued(pack([held.sig]), pack([order]), (gate,)))


def requeue(state: IngestState) -> None:
    """Publish the signatures and pods that a new configuration changes."""
    choose_plugins(state)
    changed: list[tuple[SignatureId, int, str]] = []
    regated = []
    for key, held in sorted(state.sigs.items(), key=lambda item: item[1].sig):
        spec = _decoder.decode(key)
        plain = spec.priority, ""
        before, held.queued = held.queued or plain, queued_as(state, spec)
        after = held.queued or plain
        if before != after:
            changed.append((held.sig, *after))
        if before[1] != after[1]:
            regated.append(held.sig)
    if changed:
        sigs, orders, gates = zip(*changed, strict=True)
        state.outbox.append(SignaturesQueued(pack(sigs), pack(orders), gates, again=True))
        _publish_pending(state, np.array(regated, np.int64))


def _publish_pending(state: IngestState, sigs: I64) -> None:
    """Publish the waiting pods of these signatures, with their own gates."""
    table = state.pods
    slots = table.live()
    is_waiting = (table.nodes[slots] == 0) & (table.is_published[slots] == 0)
    slots = slots[is_waiting & np.isin(table.sigs[slots], sigs)]
    columns = (table.sigs[slots], table.gangs[slots], table.gated[slots])
    groups: dict[tuple[SignatureId, GangId, int], list[PodId]] = {}
    alike = zip(*(column.tolist() for column in columns), strict=True)
    for key, pod in zip(alike, table.ids[slots].tolist(), strict=True):
        groups.setdefault(key, []).append(pod)
    for (sig, gang, gated), pods in groups.items():
        state.outbox.append(PodsPending(sig, pack(pods), gang, gated=bool(gated)))
