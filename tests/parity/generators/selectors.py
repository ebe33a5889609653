"""Questions about selectors: expressions drawn from a small grammar, of which most have a type, and
devices that they are asked about.
"""

from random import Random

from tests.parity.generators.case_builder import Object

GPU = "gpu.example.com"
NAMES = ("index", "model", "version", "healthy", "ratio", "absent")
DEPTH_MAX = 4
ORDERS = ("isGreaterThan", "isLessThan")
QUANTIFIERS, PARTS = ("all", "exists", "exists_one"), ("contains", "startsWith", "endsWith")
QUANTITIES = ("1", "1500m", "2Gi", "40Gi", "1e3", "-1", "0.5", "1.5k", "3n", "x", "")
VERSIONS = ("1.2.3", "1.10.0", "1.2.3-rc.1", "1.2.3-rc.2+b", "2.0", "01.2.3", "v1.2.3")
TEXTS = ("", "a100", "h100", "A100", "gpu.example.com", "é")
PATTERNS = ("^a", "100$", "[ah]1+0*", "(a|h)100", r"\d+", "a.0", "(?:h1)?00", "[^a]", "x{2}", "")


def case(seed: int) -> Object:
    """One case: ten expressions, four devices."""
    draw = Random(f"selectors {seed}")
    expressions = [_bool(draw, 0) for _ in range(10)]
    return {"cel": {"expressions": expressions, "devices": [_device(draw) for _ in range(4)]}}


def _device(draw: Random) -> Object:
    values: dict[str, Object] = {
        "index": {"int": draw.randint(-1, 3)},
        "model": {"string": draw.choice(TEXTS)},
        "version": {"version": draw.choice(VERSIONS[:4])},
        "healthy": {"bool": draw.random() < 0.5},
        "ratio": {"int": draw.choice((0, (1 << 63) - 1))},
        "example.com/numa": {"int": draw.randint(0, 1)},
    }
    kept = {name: one for name, one in values.items() if draw.random() < 0.8}
    capacity = {"memory": {"value": draw.choice(QUANTITIES[:5])}}
    found: Object = {"name": "d", "attributes": kept}
    if draw.random() < 0.8:
        found["capacity"] = capacity
    return {"driver": draw.choice((GPU, GPU, "nic.example.com")), "device": found}


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\") + "'"


def _map(draw: Random) -> str:
    domain = draw.choice((f'"{GPU}"', "device.driver", '"example.com"'))
    return f"device.attributes[{domain}]"


def _any(draw: Random) -> str:
    name = draw.choice((*NAMES, "numa"))
    how = draw.random()
    if how < 0.6:
        return f"{_map(draw)}.{name}"
    if how < 0.8:
        return f'{_map(draw)}["{name}"]'
    other = draw.choice(("true", "1", '"a100"', "semver('1.0.0')"))
    return f"{_map(draw)}{draw.choice(('.?' + name, f'[?{name!r}]'))}.orValue({other})"


def _of_type(draw: Random, depth: int) -> tuple[str, str]:
    """Return a type, and an expression of that type, or an attribute that might have it."""
    kind = draw.choice(("int", "int", "string", "string", "quantity", "semver", "bool", "double"))
    return kind, _typed(draw, kind, depth)


def _typed(draw: Random, kind: str, depth: int) -> str:
    if kind not in ("quantity", "double") and draw.random() < 0.4:
        return _any(draw)
    deeper = depth + 1
    if kind == "bool":
        return _bool(draw, deeper) if depth < DEPTH_MAX else "true"
    if kind == "int":
        if depth >= DEPTH_MAX or draw.random() < 0.4:
            return draw.choice(("0", "1", "-2", "3", "0x10", "9223372036854775807"))
        return draw.choice(
            (
                lambda: (
                    f"({_typed(draw, 'int', deeper)} {draw.choice('+-*/%')} "
                    f"{_typed(draw, 'int', deeper)})"
                ),
                lambda: f"size({_map(draw)})",
                lambda: f"{_typed(draw, 'string', deeper)}.size()",
                lambda: f"-{_any(draw)}",
                lambda: f"{_typed(draw, 'semver', deeper)}.{draw.choice(('major', 'minor'))}()",
                lambda: (
                    f"{_typed(draw, 'quantity', deeper)}.compareTo("
                    f"{_typed(draw, 'quantity', deeper)})"
                ),
                lambda: f"sign({_typed(draw, 'quantity', deeper)})",
            )
        )()
    if kind == "string":
        if depth >= DEPTH_MAX or draw.random() < 0.5:
            return draw.choice(
                (_text(draw.choice(TEXTS)), "device.driver", '"\\u00e9\\x41"', 'r"\\d"')
            )
        inner = _typed(draw, "string", deeper)
        return draw.choice((f"{inner}.lowerAscii()", f"{inner}.upperAscii()", f"({inner} + 'x')"))
    if kind == "quantity":
        if draw.random() < 0.4:
            return f'device.capacity["{GPU}"].{draw.choice(("memory", "memory", "absent"))}'
        if depth < DEPTH_MAX and draw.random() < 0.3:
            other = _typed(draw, draw.choice(("int", "quantity")), deeper)
            return f"{_typed(draw, 'quantity', deeper)}.{draw.choice(('add', 'sub'))}({other})"
        return f"quantity({_text(draw.choice(QUANTITIES))})"
    if kind == "semver":
        return f"semver({_text(draw.choice(VERSIONS))})"
    return draw.choice(("1.0", "0.5", "-2.5e1", "(1.0 / 0.0)"))


def _bool(draw: Random, depth: int) -> str:
    deeper = depth + 1
    if depth >= DEPTH_MAX:
        return draw.choice(("true", "false", _any(draw)))
    kind, left = _of_type(draw, deeper)
    same = _typed(draw, kind, deeper)
    other = _of_type(draw, deeper)[1] if draw.random() < 0.15 else same
    return draw.choice(
        (
            lambda: f"{left} {draw.choice(('==', '!='))} {other}",
            lambda: f"{left} {draw.choice(('<', '<=', '>', '>='))} {other}",
            lambda: f"{_bool(draw, deeper)} && {_bool(draw, deeper)}",
            lambda: f"({_bool(draw, deeper)} || {_bool(draw, deeper)})",
            lambda: f"!({_bool(draw, deeper)})",
            lambda: f"({_bool(draw, deeper)} ? {_bool(draw, deeper)} : {_bool(draw, deeper)})",
            lambda: f"has({_map(draw)}.{draw.choice(NAMES)})",
            lambda: f'"{draw.choice(NAMES)}" in {_map(draw)}',
            lambda: (
                f"{draw.choice(('device.driver', _text(GPU), _text('q')))} in device.attributes"
            ),
            lambda: f"{left} in [{same}, {_typed(draw, kind, deeper)}]",
            lambda: f"{_map(draw)}.?{draw.choice(NAMES)}.hasValue()",
            lambda: f"cel.bind(v, {left}, v == {same} || {_bool(draw, deeper)})",
            lambda: (
                f"{_map(draw)}.{draw.choice(QUANTIFIERS)}(k, k {draw.choice(('!=', '<'))} 'model')"
            ),
            lambda: (
                f"[{_typed(draw, 'int', deeper)}, {_typed(draw, 'int', deeper)}]."
                f"{draw.choice(QUANTIFIERS)}(k, k {draw.choice('<>')} {_any(draw)})"
            ),
            lambda: f"size({_map(draw)}.filter(k, k.startsWith('m'))) {draw.choice('<>')} 1",
            lambda: (
                f"{_typed(draw, 'string', deeper)}."
                f"{draw.choice(PARTS)}({_typed(draw, 'string', deeper)})"
            ),
            lambda: f"{_typed(draw, 'string', deeper)}.matches({_text(draw.choice(PATTERNS))})",
            lambda: (
                f"{draw.choice(('isQuantity', 'isSemver'))}("
                f"{_text(draw.choice(QUANTITIES + VERSIONS))})"
            ),
            lambda: (
                f"{_typed(draw, 'semver', deeper)}."
                f"{draw.choice(ORDERS)}({_typed(draw, 'semver', deeper)})"
            ),
            lambda: (
                f"{_typed(draw, 'quantity', deeper)}."
                f"{draw.choice(ORDERS)}({_typed(draw, 'quantity', deeper)})"
            ),
            lambda: f"{_any(draw)} == null",
            lambda: "device.allowMultipleAllocations",
            lambda: _any(draw),
        )
    )()
