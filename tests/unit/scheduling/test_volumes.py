"""Volumes on nodes: attachments follow every charge, and batches count what they attach."""

from random import Random

import pytest
from msgspec.structs import replace

from shared.model.cluster_objects import (
    CSINode,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from shared.model.volumes import AWS, GCE, PORTWORX, ClaimUse, Disk
from shared.scheduling.cycle import kernel as kernels
from shared.scheduling.cycle.inter_pod_rules import rules_of
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.table import NodeTable
from shared.scheduling.volumes import storage_changes
from shared.scheduling.volumes.csi_columns import NO_LIMIT, CsiColumns
from shared.scheduling.volumes.migration import PLUGINS
from shared.scheduling.volumes.storage import Storage
from shared.scheduling.volumes.volume_uses import AttachedColumns, Uses
from tests.unit.scheduling.tables import at, node, rows, spec, table_of

DRIVER = "disk"
CLAIMS = 6


def storage(limit: int = 2, modes: tuple[str, ...] = ()) -> Storage:
    """Return storage with claims c0..c5 and volumes v0..v5; c5 has the volume of c4."""
    csi_nodes = [CSINode(uid=n, name=n, drivers=(NodeDriver(DRIVER, limit),)) for n in ("n1", "n2")]
    volumes = [
        PersistentVolume(uid=f"v{i}", name=f"v{i}", driver=DRIVER, handle=f"h{i}")
        for i in range(CLAIMS)
    ]
    claims = [
        PersistentVolumeClaim(
            uid=f"c{i}",
            name=f"c{i}",
            namespace="a",
            volume=f"v{min(i, 4)}",
            access_modes=modes,
            is_bind_completed=True,
        )
        for i in range(CLAIMS)
    ]
    there = VolumeAttachment(uid="x", name="x", attacher=DRIVER, node="n2", volume="v0")
    return Storage([*csi_nodes, *volumes, *claims, there])


def signature(table: NodeTable, number: int, *volumes: ClaimUse | Disk) -> Signature:
    made = Signature(table, number, spec(namespace="a", volumes=volumes))
    table.counters.add(made)
    return made


def columns_of(table: NodeTable) -> tuple[list[int], list[list[int]]]:
    """Return the volumes attached to each node, and the nodes of each volume."""
    uses = table.counters.volumes
    found = uses.attached(table.storage, table.nodes, table.static_version)
    return found.count(DRIVER).tolist(), [
        sorted(found.rows((DRIVER, f"h{i}"))) for i in range(CLAIMS)
    ]


def test_attached_volumes_follow_every_charge():
    draw = Random(7)
    table = table_of(node(1), node(2), node(3))
    table.storage = storage()
    sigs = [signature(table, i + 1, ClaimUse(f"c{i}")) for i in range(CLAIMS)]
    charged: list[tuple[Signature, int]] = []
    for step in range(300):
        if charged and draw.random() < 0.45:
            sig, node_id = charged.pop(draw.randrange(len(charged)))
            table.charge(sig, rows(at(table, node_id)), sign=-1)
        else:
            sig, node_id = draw.choice(sigs), draw.randint(1, 3)
            table.charge(sig, rows(at(table, node_id)))
            charged.append((sig, node_id))
        if step == 150:
            table.set_nodes([4], [node(4)])  # rows move
        if step == 200:
            table.remove_nodes([1])
            charged = [one for one in charged if one[1] != 1]
            table.set_nodes([1], [node(1)])
        rebuilt = AttachedColumns(table.storage, table.nodes)
        for row in range(table.size):
            rebuilt.write(row, table.counters.volumes.rows.get(row, {}))
        expected = {
            row: {(s.uses[0]) for s, number in charged if at(table, number) == row}
            for row in range(table.size)
        }
        for row, uses in expected.items():
            assert set(table.counters.volumes.rows.get(row, {})) == uses
        assert columns_of(table)[0] == rebuilt.count(DRIVER).tolist()
        assert columns_of(table)[1] == [
            sorted(rebuilt.rows((DRIVER, f"h{i}"))) for i in range(CLAIMS)
        ]


def changed(draw: Random, known: Storage) -> None:
    """Add, delete or change an object of the storage."""
    number = draw.randrange(CLAIMS)
    claim, volume, attachment, node_name = f"c{number}", f"v{number}", f"x{number}", f"n{number}"
    match draw.randrange(8):
        case 0:
            known.remove(draw.choice((claim, volume, attachment)))
        case 1 | 2:
            which = draw.choice(("", f"v{draw.randrange(CLAIMS)}"))
            storage_class = draw.choice(("", "made"))
            made = PersistentVolumeClaim(uid=claim, name=claim, namespace="a", volume=which)
            known.put(replace(made, storage_class=storage_class))
        case 3 | 4:
            handle, driver = f"h{draw.randrange(CLAIMS)}", draw.choice((DRIVER, "other"))
            known.put(PersistentVolume(uid=volume, name=volume, driver=driver, handle=handle))
        case 5:
            to = {"node": f"n{draw.randint(1, 3)}", "volume": f"v{draw.randrange(CLAIMS)}"}
            known.put(VolumeAttachment(uid=attachment, name=attachment, attacher=DRIVER, **to))
        case 6:
            known.put(StorageClass(uid="k", name="made", provisioner=draw.choice(("", DRIVER))))
        case 7:
            limit = draw.choice((None, 1, 2))
            drivers = (NodeDriver(DRIVER, limit),)
            known.put(
                CSINode(uid=node_name, name=node_name, drivers=drivers, migrated=(PLUGINS[AWS],))
            )


@pytest.mark.parametrize("seed", range(20))
def test_attached_volumes_follow_every_change_of_storage(seed, monkeypatch):
    monkeypatch.setattr(storage_changes, "KEPT_MAX", 3 if seed % 2 else 65_536)
    draw = Random(seed)
    table = table_of(node(1), node(2), node(3))
    table.storage = storage()
    sigs = [signature(table, i + 1, ClaimUse(f"c{i}")) for i in range(CLAIMS)]
    for step in range(200):
        changed(draw, table.storage)
        if step < 12:
            table.charge(draw.choice(sigs), rows(draw.randrange(table.size)))
        if draw.random() < 0.3:
            continue
        rebuilt = AttachedColumns(table.storage, table.nodes)
        for row in range(table.size):
            rebuilt.write(row, table.counters.volumes.rows.get(row, {}))
        assert columns_of(table)[0] == rebuilt.count(DRIVER).tolist()
        assert columns_of(table)[1] == [
            sorted(rebuilt.rows((DRIVER, f"h{i}"))) for i in range(CLAIMS)
        ]
        where = (table.nodes, table.static_version)
        maintained, fresh = table.storage.csi, CsiColumns(table.storage.csi_nodes)
        assert maintained.limits(DRIVER, *where).tolist() == fresh.limits(DRIVER, *where).tolist()
        assert maintained.migrated(AWS, *where).tolist() == fresh.migrated(AWS, *where).tolist()


def test_attached_volumes_are_not_recounted_for_a_claim(monkeypatch):
    table = table_of(node(1), node(2), node(3))
    table.storage = storage()
    for i in range(CLAIMS):
        table.charge(signature(table, i + 1, ClaimUse(f"c{i}")), rows(i % 3))
    columns_of(table)
    written: list[int] = []
    write = AttachedColumns.write

    def noted(self: AttachedColumns, row: int, uses: Uses) -> None:
        written.append(row)
        write(self, row, uses)

    monkeypatch.setattr(AttachedColumns, "write", noted)
    table.storage.put(table.storage.volumes["v1"])
    columns_of(table)
    assert written == [1]


def test_attachments_and_volumes_of_pods_are_added():
    table = table_of(node(1), node(2))
    table.storage = storage()
    first, second = at(table, 1), at(table, 2)
    table.charge(signature(table, 1, ClaimUse("c1")), rows(first, second))
    table.charge(signature(table, 2, ClaimUse("c0")), rows(second))
    found = columns_of(table)
    assert (found[0][first], found[0][second]) == (1, 2)


@pytest.mark.parametrize(
    ("volume", "places"),
    [
        (Disk(AWS, "d"), 2),
        (Disk(AWS, "d", read_only=True), 2),
        (Disk(GCE, "d"), 2),
        (Disk(GCE, "d", read_only=True), 4),
        (ClaimUse("c4"), 4),
    ],
)
def test_pods_of_a_batch_count_against_each_other(volume, places):
    table = table_of(node(1), node(2))
    table.storage = storage()
    assert len(Kernel().place(table, signature(table, 1, volume), 4).rows) == places


def test_a_batch_ends_with_the_first_pod_of_a_claim_for_one():
    table = table_of(node(1), node(2))
    table.storage = storage(modes=("ReadWriteOncePod",))
    wanted = signature(table, 1, ClaimUse("c1"))
    kernel = Kernel()
    picks = kernel.place(table, wanted, 4)
    assert len(picks.rows) == 1
    table.charge(wanted, picks.rows)
    assert kernel.place_one(table, wanted) is None


def test_a_change_of_storage_is_seen():
    table = table_of(node(1))
    wanted = signature(table, 1, ClaimUse("c1"))
    kernel = Kernel()
    assert kernel.place_one(table, wanted) is None
    table.storage = storage()
    assert kernel.place_one(table, wanted) is not None


def test_pods_without_volume_needs_take_the_short_path():
    table = table_of(node(1), node(2), node(3))
    table.remove_nodes([2])
    table.storage = storage(limit=0)
    here = signature(table, 1, ClaimUse("c1"))
    assert rules_of(table, here) is not None
    pick = Kernel().place_one(table, here)
    assert pick is not None
    assert table.nodes[pick.row].name == "n3"
    table.remove_nodes([1])  # the only node with a limit
    assert rules_of(table, here) is None


@pytest.mark.parametrize("seed", range(40))
def test_a_batch_is_the_same_as_one_pod_after_the_other(seed):
    draw = Random(seed)
    table = table_of(*(node(number) for number in range(1, draw.randint(2, 5))))
    modes = draw.choice(((), ("ReadWriteOncePod",)))
    table.storage = storage(limit=draw.choice((1, 2, 3)), modes=modes)
    disks = [Disk(kind, "d", read_only) for kind in (AWS, GCE) for read_only in (False, True)]
    volumes: list[ClaimUse | Disk] = [*disks, *(ClaimUse(f"c{i}") for i in range(CLAIMS))]
    sigs = [
        signature(table, number, *draw.sample(volumes, draw.randint(1, 3)))
        for number in range(1, 6)
    ]
    for _ in range(draw.randint(0, 4)):
        table.charge(draw.choice(sigs), rows(draw.randrange(table.size)))
    wanted, kernel = draw.choice(sigs), Kernel()
    together = kernel.place(table, wanted, 5).rows.tolist()
    alone: list[int] = []
    while len(alone) < 5:
        pick, naive = kernel.place_one(table, wanted), kernel.place_naive(table, wanted)
        if pick is None:
            assert not len(naive.rows)
            break
        expected = (naive.rows[0], naive.totals[0], naive.feasible, naive.runner_up)
        assert expected == (pick.row, pick.total, pick.feasible, pick.runner_up)
        alone.append(pick.row)
        table.charge(wanted, rows(pick.row))
    assert together == alone


def test_pods_that_differ_in_volumes_alone_have_one_row():
    table = table_of(node(1), node(2))
    table.storage = storage(limit=9)
    kernel, sigs = Kernel(), [signature(table, i, ClaimUse(f"c{i}")) for i in range(CLAIMS)]
    larger = Signature(table, 9, spec(cpu=700, namespace="a", volumes=(ClaimUse("c1"),)))
    table.counters.add(larger)
    for sig in (*sigs, larger, larger):
        pick, naive = kernel.place_one(table, sig), kernel.place_naive(table, sig)
        assert pick is not None
        assert (pick.row, pick.total) == (naive.rows[0], naive.totals[0])
        if sig is not larger:
            table.charge(sig, rows(pick.row))
    assert len(kernel.cache) == 2
    assert {sig.alike for sig in sigs[1:]} == {sigs[0]}
    assert sigs[0].alike is None


def test_the_rows_that_others_share_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(kernels, "ALIKE_MAX", 2)
    table = table_of(node(1))
    table.storage = storage(limit=9)
    for number in range(1, 9):
        wanted = spec(cpu=number, namespace="a", volumes=(ClaimUse("c1"),))
        sig = Signature(table, number, wanted)
        table.counters.add(sig)
        Kernel().place_one(table, sig)
        assert len(table.alike) <= 3


def test_disks_of_portworx_count_where_the_node_says_so():
    def says(name: str, *plugins: str) -> CSINode:
        drivers = (NodeDriver("pxd.portworx.com", 1),)
        return CSINode(uid=name, name=name, drivers=drivers, migrated=plugins)

    def taken_by(*volumes: ClaimUse | Disk) -> int:
        return Kernel().place_naive(table, signature(table, 9, *volumes)).feasible

    table = table_of(node(1), node(2), node(3))
    written = PersistentVolume(uid="v", name="v", driver="pxd.portworx.com", handle="d1")
    classes = [StorageClass(uid="k", name="k", provisioner=PLUGINS[PORTWORX])]
    claims = [
        PersistentVolumeClaim(
            uid=name, name=name, namespace="a", volume=volume, is_bind_completed=bool(volume)
        )
        for name, volume in (("c", "v"), ("late", ""))
    ]
    claims[1] = replace(claims[1], storage_class="k", selected_node="elsewhere")
    objects: list[StorageObject] = [
        says("n1", PLUGINS[PORTWORX]),
        says("n2"),
        written,
        *classes,
        *claims,
    ]
    table.storage = Storage(objects)
    first = signature(table, 1, Disk(PORTWORX, "d1"))
    for row in range(3):
        table.charge(first, rows(row))
    assert taken_by(Disk(PORTWORX, "d1")) == taken_by(ClaimUse("c")) == 3
    assert taken_by(Disk(PORTWORX, "d1"), ClaimUse("c")) == 3
    assert taken_by(Disk(PORTWORX, "d2")) == 2
    assert taken_by(ClaimUse("c"), Disk(PORTWORX, "d2")) == 2
    table.storage.put(says("n2", PLUGINS[PORTWORX]))
    assert taken_by(Disk(PORTWORX, "d2")) == 1
    assert taken_by(Disk(PORTWORX, "d1")) == 3
    assert table.storage.attached("a", ClaimUse("late")) == (PLUGINS[PORTWORX], "\0a/late")


def test_the_lowest_limit_is_that_of_the_nodes_that_have_one():
    published = storage(limit=3)
    table = table_of(node(1), node(2), node(3))
    for driver, lowest in ((DRIVER, 3), ("other", NO_LIMIT)):
        published.csi.limits(driver, table.nodes, 1)
        assert published.csi.lowest(driver) == lowest
