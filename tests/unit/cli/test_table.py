"""Lists of objects: a table for people, and JSON, CSV and names for programs."""

import csv
import io
import json

import pytest
from msgspec import Struct

from muster.cli.output import Time, time_of
from muster.cli.table import Listing, print_listing

FOREIGN = 'denied by \x1b[31mwebhook\x1b[0m,\n"forged"'
SHOWN = 'denied by \\x1b[31mwebhook\\x1b[0m, "forged"'


class Row(Struct):
    name: str
    seen_time: Time | None
    taints: tuple[str, ...]
    bound: int | None
    message: str


ROWS = [
    Row("a", time_of(1_700_000_000_010), ("x:NoSchedule", "y:NoExecute"), None, FOREIGN),
    Row("long", None, (), 3, ""),
]
CELLS = [{"NAME": row.name, "REASON": row.message} for row in ROWS]
LISTING = Listing(Row, ROWS, CELLS, ["pod/a", "pod/long"])
EMPTY = Listing(Row, [], [], [])


@pytest.mark.parametrize("output", ["text", "wide"])
def test_a_table_has_equal_columns_and_clean_cells(capsys, output):
    print_listing(LISTING, output)
    assert capsys.readouterr().out.splitlines() == [
        "NAME  REASON",
        f"a     {SHOWN}",
        "long  <none>",
    ]


def test_names_are_those_that_other_commands_take(capsys):
    print_listing(LISTING, "name")
    assert capsys.readouterr().out == "pod/a\npod/long\n"


def test_json_has_times_as_rfc_3339_and_texts_as_they_are(capsys):
    print_listing(LISTING, "json")
    first, second = json.loads(capsys.readouterr().out)
    assert first == {
        "name": "a",
        "seen_time": "2023-11-14T22:13:20.010Z",
        "taints": ["x:NoSchedule", "y:NoExecute"],
        "bound": None,
        "message": FOREIGN,
    }
    assert (second["seen_time"], second["bound"]) == (None, 3)


def test_csv_has_the_keys_of_json_and_a_line_for_each_row(capsys):
    print_listing(LISTING, "csv")
    head, first, second = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head == ["name", "seen_time", "taints", "bound", "message"]
    taints = "x:NoSchedule y:NoExecute"
    assert first == ["a", "2023-11-14T22:13:20.010Z", taints, "", SHOWN]
    assert second == ["long", "", "", "3", ""]


@pytest.mark.parametrize(
    ("output", "out", "err"),
    [
        ("text", "", "nothing found\n"),
        ("json", "[]\n", ""),
        ("name", "", ""),
        ("csv", "name,seen_time,taints,bound,message\n", ""),
    ],
)
def test_an_empty_list_is_still_a_list_for_programs(capsys, output, out, err):
    print_listing(EMPTY, output)
    assert capsys.readouterr() == (out, err)
