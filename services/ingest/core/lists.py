"""Lists: deletions follow only from a complete list of the present term.

A list that would delete more than half of the nodes or pods must be confirmed by a second one, and
a list older than what was already consumed is ignored. Both request another list.
"""

from services.ingest.core.groups import remove_budgets, remove_gangs, resolve_disrupted
from services.ingest.core.list_requests import ask
from services.ingest.core.nodes import remove_nodes, update_nodes
from services.ingest.core.other_objects import remove_objects
from services.ingest.core.pods.pods import forget
from services.ingest.core.restored import rewound_list_ended
from services.ingest.core.state import FIRST, Bracket, IngestState
from shared.events.ingest import ListApplied, ListDoubted, WorldListed, WorldRestored
from shared.events.observed import ListBegan, ListEnded
from shared.model.ids import INGEST

KINDS = (*FIRST, "objects")
DOUBTED = ("nodes", "pods")


def on_list_began(state: IngestState, event: ListBegan) -> None:
    """Begin a list; it voids an open one of the same kind."""
    assert event.kind in KINDS, f"list of {event.kind}: no such kind"
    if event.kind == "pods":
        state.mark += 1
        state.is_rewound = False
    stale = event.revision < state.seen_revision or any(
        mark < state.marks.get(part, 0) for part, mark in event.marks
    )
    held = len(state.pods) if event.kind == "pods" else len(_known_keys(state, event.kind))
    state.brackets[event.kind] = Bracket(
        event.revision, held, stale, seen={}, nodes=[], marks=event.marks
    )


def on_list_ended(state: IngestState, event: ListEnded) -> None:
    """Apply what the list implies, or request another one."""
    bracket = state.brackets.pop(event.kind, None)
    if bracket is None:
        return
    if bracket.stale or bracket.named != event.count:
        ask(state, event.kind)
        return
    if event.kind == "pods" and state.is_rewound:
        rewound_list_ended(state)
        return
    state.marks.update(bracket.marks)
    state.broken_off.pop(event.kind, None)
    missing = _missing(state, event.kind, bracket)
    doubtful = event.kind in DOUBTED and 2 * len(missing) > bracket.held
    if doubtful and event.kind not in state.doubts:
        state.doubts[event.kind] = True
        state.outbox.append(ListDoubted(event.kind, len(missing)))
        update_nodes(state, bracket.nodes)
        ask(state, event.kind)
        return
    state.doubts.pop(event.kind, None)
    _delete(state, event.kind, missing)
    update_nodes(state, bracket.nodes)
    if event.kind == "pods":
        state.listed_pods = max(state.listed_pods, bracket.revision)
        resolve_disrupted(state)
    elif event.kind == "objects":
        state.listed_objects = max(state.listed_objects, bracket.revision)
    for effect in [e for e, asked in state.effects.items() if asked.kind == event.kind]:
        del state.effects[effect]
    state.outbox.append(ListApplied(event.kind, len(missing)))
    if event.kind in state.unlisted:
        state.unlisted.remove(event.kind)
        if not state.unlisted:
            if state.is_restored:
                state.is_restored = False
                state.outbox.append(WorldRestored(True))
            if not state.stands_by:
                state.outbox.append(WorldListed(True))


def _known_keys(state: IngestState, kind: str) -> list[str]:
    """Return the keys of the live objects of a kind other than pods, in a fixed order."""
    if kind == "nodes":
        return sorted(state.nodes)
    if kind == "budgets":
        return sorted(state.budgets)
    if kind == "objects":
        return sorted(state.objects)
    listed = (known.gang is not None and not known.gang.of_pods for known in state.gangs.values())
    return sorted(key for key, is_listed in zip(state.gangs, listed, strict=True) if is_listed)


def _missing(state: IngestState, kind: str, bracket: Bracket) -> list[str]:
    if kind != "pods":
        return [key for key in _known_keys(state, kind) if key not in bracket.seen]
    table = state.pods
    slots = table.live()
    unmarked = slots[table.marks[slots] != state.mark]
    if not len(unmarked):
        return []
    wanted = dict.fromkeys(unmarked.tolist(), "")
    for uid, slot in table.slots.items():
        if slot in wanted:
            wanted[slot] = uid
    lost = [table.ids.item(slot) for slot, uid in wanted.items() if not uid]
    assert not lost, f"{INGEST}: pods {lost} live on, and no uid leads to them"
    return list(wanted.values())


def _delete(state: IngestState, kind: str, keys: list[str]) -> None:
    if kind == "pods":
        gone = [state.pods.slots.pop(uid) for uid in keys]
        forget(state, gone, is_finished=not state.is_restored)
    elif kind == "nodes":
        remove_nodes(state, keys)
    elif kind == "budgets":
        remove_budgets(state, keys)
    elif kind == "objects":
        remove_objects(state, keys)
    else:
        remove_gangs(state, keys)
