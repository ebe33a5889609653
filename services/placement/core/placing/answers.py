"""The events that answer a dispatch: pods reserved, with their nodes, or refused, with reasons."""

from services.placement.core.books.charges import compiled
from services.placement.core.placing import bind_plugins, wakeups
from services.placement.core.placing.cycle import Chosen
from services.placement.core.placing.work_queue import Work
from services.placement.core.preemption import pre_check
from services.placement.core.state import PlacementState
from services.placement.core.volumes import reservations
from shared.events.placement import Refused, Reserved
from shared.model.columns import I64, ID_BYTES, pack, pack_totals
from shared.scheduling.table.layout import Held
from shared.scheduling.table.picks import Pick


def reserve(state: PlacementState, work: Work, ids: I64, picks: Chosen) -> Reserved:
    """The event for these picks."""
    return Reserved(
        shard=state.shard,
        attempt=work.attempt,
        sig=work.sig,
        ids=ids.tobytes(),
        nodes=state.table.ids[picks.rows].tobytes(),
        totals=pack_totals(picks.totals),
        devices=pack(picks.masks) if compiled(state, work.sig).gpu_count else b"",
        feasible=picks.feasible,
        world=state.world,
        runner_up=picks.runner_up,
        volumes=reservations.chosen(state, work.sig, int(picks.rows[0])),
        spec=bind_plugins.shown(state, work.sig),
    )


def reserve_one(
    state: PlacementState, work: Work, ids: I64, pick: Pick, examined: int = 0
) -> Reserved:
    """The event for one pick for the first of these pods, without arrays."""
    sig = compiled(state, work.sig)
    width = sig.plugins.total_bytes
    return Reserved(
        shard=state.shard,
        attempt=work.attempt,
        sig=work.sig,
        ids=ids[:1].tobytes(),
        nodes=state.table.node_id_at(pick.row).to_bytes(ID_BYTES, "little"),
        totals=pick.total.to_bytes(width, "little", signed=True),
        devices=pick.mask.to_bytes(ID_BYTES, "little") if sig.gpu_count else b"",
        feasible=pick.feasible,
        world=state.world,
        runner_up=pick.runner_up,
        examined=examined,
        volumes=reservations.chosen(state, work.sig, pick.row),
        spec=bind_plugins.shown(state, work.sig),
    )


def refuse(
    state: PlacementState, work: Work, ids: I64, held: Held | None, examined: int = 0
) -> Refused:
    """Why no node takes them. A retired signature has no reasons any more."""
    nodes = len(state.nodes)
    if work.sig not in state.specs:
        return Refused(state.shard, work.attempt, work.sig, ids.tobytes(), (), nodes, state.world)
    found = wakeups.reasons(state, work.sig, held)
    return Refused(
        shard=state.shard,
        attempt=work.attempt,
        sig=work.sig,
        ids=ids.tobytes(),
        reasons=found.messages,
        nodes=nodes,
        world=state.world,
        resolvable=found.resolvable,
        preemptible=pre_check.may_help(state, work.sig, held, found.resolvable),
        examined=examined,
        rejected=wakeups.is_rejected(state, work.sig, found),
    )
