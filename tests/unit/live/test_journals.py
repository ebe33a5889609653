"""The checker's own reading of journals: which records count, and that damage is loud."""

import zlib
from typing import Any

import msgspec
import pytest

from tests.live.checker.journals import Entry, by_epoch, entries


def written(**record: Any) -> bytes:
    body = msgspec.msgpack.encode({"seq": 1, "time_ms": 1_500, **record})
    return b"M1" + zlib.crc32(body).to_bytes(4, "little") + body


def claim(owner: str) -> bytes:
    return written(term=-1, claim={"owner": owner, "nonce": "", "version": 1})


def step(term: int, kind: str) -> bytes:
    body = msgspec.msgpack.encode([{"type": kind}])
    return written(term=term, consumed=[["ingest/0", 3, 5, -1]], slices=[[["binding"], body]])


def test_records_under_a_lost_claim_do_not_count():
    payloads = [claim("first"), step(0, "a"), claim("second"), step(0, "late"), step(2, "b")]
    found = entries(enumerate(payloads))
    assert [(entry.position, entry.owner) for entry in found] == [
        (0, "first"),
        (1, ""),
        (2, "second"),
        (4, ""),
    ]
    assert found[-1] == Entry(4, 1.5, [("ingest/0", 3, 5)], [{"type": "b"}])
    assert found[-1].of("a") == []


def test_observations_from_outside_are_kept_apart():
    came = msgspec.msgpack.encode([{"type": "a"}, {"type": "b"}])
    (_claim, entry) = entries(enumerate([claim("first"), written(term=0, received=came)]))
    assert (entry.heard("b"), entry.events) == ([{"type": "b"}], [])


def test_a_flipped_bit_is_loud():
    payload = bytearray(step(0, "a"))
    payload[-1] ^= 1
    with pytest.raises(AssertionError):
        entries([(0, claim("first")), (1, bytes(payload))])


def test_epochs_are_kept_apart():
    first, second = [Entry(0, 0.0, [])], [Entry(0, 1.0, [])]
    found = by_epoch({"ingest/0": first, "placement/1": first, "ingest-e2/0": second})
    assert found == [{"ingest/0": first, "placement/1": first}, {"ingest/0": second}]
