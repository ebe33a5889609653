"""Names of images and packed columns of them."""

import pytest

from shared.model.columns import unpack
from shared.model.images import SIZE_MAX, canonical, number, numbers_of, packed, size_bytes


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("team/app", "team/app:latest"),
        ("registry.example:5000/app", "registry.example:5000/app:latest"),
        ("registry.example:5000/app:1", "registry.example:5000/app:1"),
        ("app@sha256:00", "app@sha256:00"),
        ("", ":latest"),
    ],
)
def test_an_image_without_a_tag_is_the_latest(written, found):
    assert canonical(written) == found


def key(name: str) -> bytes:
    return number(name).to_bytes(8, "little", signed=True)


def test_a_column_has_every_name_with_its_size():
    column = packed([("a", 5), ("b", 0), ("c", 1 << 60), ("a", 7)])
    assert [size_bytes(column, key(name)) for name in "abcd"] == [7, 0, SIZE_MAX, -1]
    assert unpack(numbers_of(column)).tolist() == sorted(map(number, "abc"))
    assert column == packed([("c", 1 << 60), ("b", 0), ("a", 7)])
    assert packed([]) == b""
    assert size_bytes(b"", key("a")) == -1


def test_a_number_is_not_found_across_two_others_nor_among_the_sizes():
    one, two = key("a"), key("b")
    numbers = one + two
    sizes = (3).to_bytes(8, "little") + int.from_bytes(key("z")).to_bytes(8)
    assert size_bytes(numbers + sizes, numbers[3:11]) == -1
    assert size_bytes(numbers + sizes, key("z")) == -1
    again = numbers[3:11]
    column = one + two + again + bytes(16) + (9).to_bytes(8, "little")
    assert size_bytes(column, again) == 9
