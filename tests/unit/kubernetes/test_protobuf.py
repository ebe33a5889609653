"""Fields of protobuf: what is not changed goes back byte by byte, and damage is noticed."""

import pytest

from shared.kubernetes.client import protobuf
from shared.kubernetes.client.client import Response

NUMBER, DOUBLE, FLOAT = b"\x08\xac\x02", b"\x11" + bytes(8), b"\x1d" + bytes(4)
LONG = "x" * 300
MESSAGE = NUMBER + protobuf.field(4, "old") + DOUBLE + FLOAT + protobuf.field(4, LONG)


def test_only_fields_of_the_number_are_replaced():
    assert protobuf.contents(MESSAGE, 4) == [b"old", LONG.encode()]
    changed = protobuf.with_fields(MESSAGE, 4, ["new"])
    assert changed == NUMBER + DOUBLE + FLOAT + protobuf.field(4, "new")


def test_a_field_is_found_in_nested_messages():
    message = protobuf.field(1, MESSAGE)
    assert protobuf.content(message, 1, 4) == LONG.encode()
    assert protobuf.content(message, 2, 4) == b""


@pytest.mark.parametrize("damaged", [MESSAGE[:-1], b"\x11\0", b"\x0b", b"\x80", b"\x22"])
def test_damage_is_noticed(damaged):
    with pytest.raises(ValueError, match=r"cut off|unknown wire type 3"):
        protobuf.contents(damaged, 1)


def test_refusals_are_read_from_either_form():
    status = protobuf.framed(protobuf.field(2, "Failure") + protobuf.field(3, "no"))
    assert Response(422, status).message() == "no"
    assert Response(422, b'{"message": "no"}').message() == "no"
    assert Response(502, protobuf.MAGIC + b"\xff").message() == "k8s\0\N{REPLACEMENT CHARACTER}"
