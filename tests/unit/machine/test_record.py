"""Records that several readers of one process decode once."""

import pytest

from shared.machine.record import Record, RecordCache, RecordUnreadable, decode, encode
from shared.model.ids import INGEST


def copy(payload):
    """Return an equal bytes object, as from another process."""
    return bytes(bytearray(payload))


def test_readers_that_are_handed_the_same_bytes_share_one_record():
    payloads = [copy(encode(Record(0, seq, 7))) for seq in range(1, 2 * RecordCache.RECORDS_MAX)]
    for seq, payload in enumerate(payloads, start=1):
        record = decode(payload, INGEST, seq)
        assert record == Record(0, seq, 7)
        assert decode(payload, INGEST, seq) is record


def test_records_of_this_process_are_read_without_decoding():
    written = Record(0, 1, 7)
    payload = encode(written)
    assert decode(payload, INGEST, 1) is written
    assert decode(copy(payload), INGEST, 1) == written


def test_a_damaged_copy_of_a_good_record_is_found():
    whole = encode(Record(0, 1, 7))
    decode(whole, INGEST, 1)
    damaged = bytes([*whole[:-1], whole[-1] ^ 1])
    for _ in range(2):
        with pytest.raises(RecordUnreadable, match="ingest/0 at 1: checksum"):
            decode(damaged, INGEST, 1)


@pytest.mark.parametrize(
    ("size_bytes", "kept"), [(1, RecordCache.RECORDS_MAX), (RecordCache.BYTES_MAX // 10, 10)]
)
def test_only_the_newest_are_kept(size_bytes, kept):
    known = RecordCache()
    records = {seq: Record(0, seq, 7) for seq in range(2 * RecordCache.RECORDS_MAX)}
    payloads = {seq: b"%d" % seq + bytes(size_bytes - 1) for seq in records}
    for seq, payload in payloads.items():
        known.add(payload, records[seq])
    found = [seq for seq, payload in payloads.items() if known.get(payload) is records[seq]]
    assert found[-1] == max(records)
    assert kept - 1 <= len(found) <= kept
