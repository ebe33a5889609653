"""Whether the moves of a place can still be carried out, in a cluster that may have changed."""

from collections.abc import Sequence

from muster.defrag.cluster import Cluster
from muster.defrag.plan import Move
from services.placement.core.preemption.nominations import nominated_pods_for
from shared.model.ids import NodeId


def why_not(cluster: Cluster, moves: Sequence[Move]) -> str:
    """Return why the pods of these moves must stay now, empty if each of them has a node: the one
    that Muster would choose, after those before it. Their present nodes must refuse them, as nodes
    with our taint do.
    """
    state = cluster.state
    ledger, table = state.ledger, state.table.trial()
    numbers = {one.uid: number for number, one in cluster.pods.items()}
    for move in moves:
        number = numbers.get(move.uid)
        at = None if number is None else number - ledger.base
        if number is None or at is None:
            return f"{move.pod} is gone"
        row = table.row_of(NodeId(int(ledger.node[at])))
        assert row is not None, f"{move.pod}: its node is not in the table"
        if table.nodes[row].name != move.from_node:
            return f"{move.pod} is not on {move.from_node} any more"
        if cluster.pods[number].stays:
            return f"{move.pod} {cluster.pods[number].stays}"
        table.charge_one(state.sigs[ledger.sig_at(at)], row, int(ledger.devices[at]), -1)
    for move in moves:
        sig = state.sigs[ledger.sig_at(numbers[move.uid] - ledger.base)]
        nominated = nominated_pods_for(state, sig.spec.priority, queue=sig.spec.queue)
        pick = state.kernel.place_one(table, sig, nominated)
        if pick is None:
            return f"no other node has room for {move.pod}"
        if table.nodes[pick.row].name == move.from_node:
            return f"{move.pod} would come back to {move.from_node}"
        table.charge_one(sig, pick.row, pick.mask)
    return ""
