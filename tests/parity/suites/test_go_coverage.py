"""The rules of coverage, applied to the files of Go's tools."""

from tests.parity.comparison.go_coverage import Reached, Source, decides, functions, percent

FIT = "k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources/fit.go"
GATES = "k8s.io/kubernetes/pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go"
STARTS = [
    f"{FIT}:10:\t\tClone\t\t0.0%",
    f"{FIT}:20:\t\tFilter\t\t66.7%",
    f"{FIT}:40:\t\tScore\t\t100.0%",
    f"{FIT}:50:\t\tisSchedulableAfterPodEvent\t0.0%",
    f"{GATES}:5:\t\tFilter\t0.0%",
    "total:\t\t(statements)\t50.0%",
]
BLOCKS = [
    "mode: set",
    f"{FIT}:10.2,12.3 4 0",
    f"{FIT}:20.2,22.3 2 1",
    f"{FIT}:23.2,30.3 1 0",
    f"{FIT}:40.2,42.3 5 1",
    f"{FIT}:50.2,52.3 9 0",
    f"{GATES}:6.2,7.3 9 0",
]


def deciding(source: Source = lambda _file: ()) -> list[Reached]:
    return [one for one in functions(BLOCKS, STARTS, source) if decides(one)]


def test_statements_belong_to_the_function_that_begins_above_them():
    found = deciding()
    assert [(one.name, one.reached, one.statements, one.missed_lines) for one in found] == [
        ("Filter", 2, 3, [23]),
        ("Score", 5, 5, []),
    ]
    assert {one.file for one in found} == {"plugins/noderesources/fit.go"}
    assert percent(found) == 87.5


def test_blocks_that_pass_an_error_on_may_be_left_out():
    lines = [""] * 60
    lines[25] = "\t\treturn nil, fwk.AsStatus(err)"
    found = deciding(lambda file: lines if file == FIT else ())
    assert [(one.name, one.reached, one.statements) for one in found] == [
        ("Filter", 2, 2),
        ("Score", 5, 5),
    ]
    lines[25], lines[22] = (
        "",
        "\tif err != nil {",
    )  # the condition before the block is no part of it
    assert percent(deciding(lambda _file: lines)) == 87.5


def test_code_that_decides_nothing_is_listed_too():
    found = functions(BLOCKS, STARTS)
    assert [one.name for one in found] == ["Clone", "Filter", "Score", "isSchedulableAfterPodEvent"]
    assert sum(one.statements for one in found) == 21


def test_no_statements_are_0_percent():
    assert percent([]) == 0
