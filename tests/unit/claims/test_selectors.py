"""What a selector says about a device, and which expressions are refused."""

import pytest

from shared.scheduling.claims.cel.compiler import DeviceView, Domains, Selector
from shared.scheduling.claims.cel.errors import EvaluationError, SelectorError
from shared.scheduling.claims.cel.values import quantity, semver

GPU = "gpu.example.com"
DEVICE = DeviceView(
    GPU,
    Domains(
        {
            GPU: {"model": "A100", "index": 3, "version": semver("1.10.0-rc.1")},
            "example.com": {"healthy": True},
        }
    ),
    Domains({GPU: {"memory": quantity("80Gi")}}),
)
GPUS = f'device.attributes["{GPU}"]'


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        (f'device.driver == "{GPU}"', True),
        (f'{GPUS}.model.lowerAscii().matches("^a1.0$")', True),
        (f"{GPUS}.index in [1, 2, 3]", True),
        (f"{GPUS}.index / 2 == 1 && -{GPUS}.index % 2 == -1", True),
        (f'{GPUS}.version.isLessThan(semver("1.10.0"))', True),
        (f'{GPUS}.version.isGreaterThan(semver("1.9.9"))', True),
        (f'device.capacity["{GPU}"].memory.compareTo(quantity("80Gi")) == 0', True),
        (f'device.capacity["{GPU}"].memory.sub(quantity("1")).isLessThan(quantity("80Gi"))', True),
        (f'has({GPUS}.absent) || !("absent" in {GPUS})', True),
        (f"{GPUS}.?absent.orValue(7) == 7", True),
        ('device.attributes["other"].exists(name, true)', False),
        ('cel.bind(a, device.attributes["example.com"], a.healthy ? a.healthy : false)', True),
        # A side that decides makes up for the error of the other one.
        (f"{GPUS}.absent || true", True),
        (f"false && {GPUS}.absent", False),
        # Values of different kinds are not equal; a version compares with versions only.
        (f'{GPUS}.model == "a100" || {GPUS}.model == 1', False),
        (f"{GPUS}.version != 1", True),
    ],
)
def test_the_selector_says(expression, matches):
    assert Selector(expression).matches(DEVICE) is matches


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (f"{GPUS}.absent == 1", "no such key: absent"),
        (f"{GPUS}.version == 1", "no such overload"),
        (f"{GPUS}.model > 1", "no such overload"),
        (f"{GPUS}.index / 0 == 1", "division by zero"),
        (f"{GPUS}.index + 9223372036854775807 > 0", "integer overflow"),
        (f"{GPUS}.model", "could not be converted to bool"),
    ],
)
def test_a_selector_without_a_result_says_why(expression, error):
    with pytest.raises(EvaluationError, match=error):
        Selector(expression).matches(DEVICE)


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("", "column 1: its end where a value is expected"),
        ("device.driver ==", "column 17"),
        ("device.name == 'x'", "undefined field 'name'"),
        ("driver == 'x'", "undeclared reference to 'driver'"),
        ("1 == 'x'", "no matching overload for '_==_'"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("[1, 'x'].exists(x, true)", "expected type 'int' but found 'string'"),
        ("b'x' == b'x'", "bytes are not supported"),
        ("device.driver.split('.').size() > 1", "'split' is not supported by muster"),
        ("device.driver.matches('(a+)+$')", "is not supported by muster"),
        ("device.driver.matches('a*a*a*a*b')", "is not supported by muster"),
        ("[1].all(a, [1].all(b, [1].all(c, true)))", "macros nested more than 2 deep"),
        ("(" * 200 + "true" + ")" * 200, "nested more than 100 deep"),
        ("true || " * 2000 + "true", "longer than 10240 bytes"),
    ],
)
def test_what_is_not_understood_is_refused(expression, error):
    with pytest.raises(SelectorError) as caught:
        Selector(expression)
    assert error in str(caught.value)


@pytest.mark.parametrize("text", ["", "x", "1,5", "1 Gi", "01x", "1e999"])
def test_texts_that_are_no_quantity(text):
    with pytest.raises(ValueError):
        quantity(text)


@pytest.mark.parametrize("text", ["1.2", "01.2.3", "v1.2.3", "1.2.3-01", "1.2.3-", ""])
def test_texts_that_are_no_version(text):
    with pytest.raises(ValueError):
        semver(text)


@pytest.mark.parametrize("joined", [" || ", " && "])
def test_chains_may_be_long(joined):
    assert Selector(joined.join(['device.driver != ""'] * 400)).matches(DEVICE)


@pytest.mark.parametrize("deep", ["1 + " * 300 + "1 > 0", "!" * 300 + "true"], ids="+!")
def test_parts_that_are_nested_too_deep_are_refused(deep):
    with pytest.raises(SelectorError, match="nested"):
        Selector(deep)
