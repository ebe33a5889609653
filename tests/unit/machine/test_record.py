"""Records that several readers of one process decode."""

import pytest

from shared.machine.record import (
    DECODED_BYTES_MAX,
    DECODED_MAX,
    Record,
    RecordUnreadable,
    decode,
    encode,
)


def test_readers_that_are_handed_the_same_bytes_share_one_record():
    payloads = [encode(Record(0, seq, 7)) for seq in range(1, 2 * DECODED_MAX)]
    for seq, payload in enumerate(payloads, start=1):
        record = decode(payload, "ingest/0", seq)
        assert record == Record(0, seq, 7)
        assert decode(payload, "ingest/0", seq) is record


def test_a_damaged_copy_is_found_beside_the_whole_record():
    whole = encode(Record(0, 1, 7))
    decode(whole, "ingest/0", 1)
    damaged = bytes([*whole[:-1], whole[-1] ^ 1])
    for _ in range(2):
        with pytest.raises(RecordUnreadable, match="ingest/0 at 1: checksum"):
            decode(damaged, "ingest/0", 1)


def test_the_largest_records_are_not_kept():
    large = encode(Record(0, 1, 7, received=bytes(DECODED_BYTES_MAX // DECODED_MAX)))
    assert decode(large, "ingest/0", 1) is not decode(large, "ingest/0", 1)
