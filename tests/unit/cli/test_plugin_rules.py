"""Plugin code that is refused because a replay could differ, and code that must be accepted."""

import ast
from pathlib import Path

import pytest

from muster.cli.errors import UsageFault
from muster.user_plugins.load import load
from muster.user_plugins.rules import refused
from shared.scheduling.api.custom.plugin import PLUGINS

HEAD = "from muster.plugin import *\nimport numpy as np\nclass One(Plugin):\n"
FILTER = " def filter(self, pod, nodes):\n  "
BODY = HEAD + FILTER


def body(*lines: str) -> str:
    return BODY + "\n  ".join(lines) + "\nOne.reads = ('labels.a', 'nodeSelector')\n"


def after(top: str, *lines: str) -> str:
    """Return a file with code at its top and a method with this body."""
    return top + "\n" + body(*lines)


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    PLUGINS.clear()


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (body("return {k: 1 for k in {1, 2}}"), "line 5: a loop over a set"),
        (body("for k in {'a', 'b'}: return k"), "line 5: a loop over a set"),
        (body("return np.array('now', dtype='M8[s]')"), "line 5: numpy's type of dates"),
        (body("return np.array(['now']).astype('datetime64')"), "line 5: numpy's type of dates"),
        (body("return np.busday_count('2020-01-01', 'today')"), "line 5: np.busday_count is not"),
        (body("return np.add.reduce([0.1])"), "line 5: np.add.reduce is not allowed"),
        (body("return np.ndarray(3, dtype='int64')"), "line 5: np.ndarray(), whose contents are"),
        (body("global seen; seen = 1"), "line 5: changing a variable outside the method"),
        # Names of modules that are not their purpose.
        ("import dataclasses\n" + body("dataclasses.inspect.linecache"), "line 6: dataclasses.ins"),
        ("import collections\n" + body("collections._sys"), "line 6: ._sys is not allowed"),
        ("import re\n" + body("re.enum.sys"), "line 6: .sys is not allowed"),
        ("import enum as e\n" + body("e.bltns.open"), "line 6: e.bltns is not allowed"),
        ("from dataclasses import inspect\n", "line 1: import inspect is not allowed"),
        ("from collections import *\n", "line 1: import * is not allowed"),
        ("import math\n" + body("return math.log(2)"), "line 6: math.log is not allowed"),
        ("import math\n" + body("m = math"), "line 6: math by itself, without .NAME, is not"),
        (body("np.seterr(all='ignore')"), "line 5: np.seterr is not allowed"),
        (body("return np.testing.suppress_warnings"), "line 5: np.testing is not allowed"),
        (body("return nodes._table.nodes"), "line 5: ._table is not allowed"),
    ],
)
def test_code_that_a_replay_could_not_repeat_is_refused(code, rule, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(code)
    with pytest.raises(UsageFault) as caught:
        load([path])
    assert rule in str(caught.value)
    assert "a replay would differ; " in str(caught.value), "and what to do in its place"


@pytest.mark.parametrize(
    "code",
    [
        body("s = set('xyz')", "return None if pod['labels.a'] in s else 'no'"),
        body("s = {x for x in 'ab'}", "for k in sorted(s): return k"),
        body("seen = set()", "for x in 'ab':", " if x not in seen:", "  seen.add(x)"),
        # Numbers.
        body("score = nodes.number('rack')", "score += 5", "score[score > 7] = 0", "return score"),
        body("return np.where(nodes.tainted('k'), 7, 90).clip(0, 100).astype(np.int64)"),
        body("return nodes.number('a').astype('int64') // np.maximum(nodes.number('b'), 1)"),
        body("return (nodes.number('a') > 1).sum(dtype=np.int64)"),
        body("x = np.zeros(len(nodes), dtype='float64')", "np.add.at(x, 0, 1)", "return x"),
        body(
            "x = np.zeros(3)",
            "np.divide(1, 2, out=x, where=x > 0)",
            "return np.max(x, where=x > 0)",
        ),
        body("with np.errstate(divide='ignore'):", " return np.nan_to_num(1 / nodes.number('a'))"),
        body("return np.argsort(nodes.number('a'), kind='stable')[::-1]"),
        body("return np.full(len(nodes), 'M8'), nodes.labelled('family', 'M8', 'm8')"),
        body("assert isinstance(nodes.number('a'), np.ndarray)"),
        "import math\n" + body("return math.ceil(1.5) + math.isqrt(4) + math.floor(math.sqrt(2))"),
        "import numpy.typing as npt\n"
        + HEAD
        + " def filter(self, pod: Pod, nodes: Nodes) -> npt.NDArray[np.bool_]:\n  pass\n",
        # Texts.
        body("return f'{pod[\"labels.a\"]} is too large: {len(nodes)}'"),
        body(
            "try: return int(pod['labels.a'])", "except ValueError as error: return f'bad: {error}'"
        ),
        body("return ', '.join(f'{k}={v}' for k, v in sorted(pod['nodeSelector'].items()))"),
        body("return '%s of %d' % (pod['labels.a'], 3) + '{:>3}'.format(len(nodes)) + str([1, 2])"),
        body("a, _, b = pod['labels.a'].partition('=')", "return a.split(',')[0].strip() + b"),
        body("return [f'{one.name} {one.labels}' for one in nodes.each()]"),
        "from dataclasses import dataclass\n@dataclass\nclass P:\n a: int\n"
        + body("return str(P(1))"),
        "from enum import Enum\nclass Tier(Enum):\n A = 'a'\n" + body("return str(Tier('a'))"),
        "from typing import NamedTuple\nclass P(NamedTuple):\n a: int\n"
        + body("return f'{P(1)._replace(a=2)}'"),
        "import re\nTIER = re.compile('a+')\n"
        + body("found = TIER.fullmatch('a')", "return found and found[0]"),
        # Ordinary uses of modules.
        HEAD
        + " def __init__(self):\n  super().__init__()\n  self.x = 1\n"
        + FILTER
        + "return self.x\n",
        "from functools import cache\n@cache\ndef f(x):\n return x * 2\n" + body("return f(2)"),
        "import itertools as it\n" + body("return list(zip('ab', it.count()))"),
        "from collections import Counter, defaultdict, deque\n"
        + body("d = defaultdict(list)", "d['a'].append(1)", "return Counter('aab')['a'], deque(d)"),
        "from heapq import heappush, nsmallest\n"
        + body("h = []", "heappush(h, (1, 'a'))", "return nsmallest(2, h)"),
        "from functools import reduce\nimport operator\n"
        + body("return reduce(operator.and_, [nodes.tainted('a'), nodes.tainted('b')])"),
        body("def deeper(x): return x + 1", "return max(map(deeper, [1, 2]), key=lambda x: -x)"),
        body("match pod['labels.a']:", " case 'x' | 'y': return None", " case other: return other"),
        "import string\n" + body("def f(string): return string", "return f('a')"),
        "from __future__ import annotations\nimport collections.abc\n"
        "def f(x: collections.abc.Sequence[str]) -> list[str]:\n return list(x)\n" + body("f('a')"),
        HEAD + " @staticmethod\n def up(x):\n  return x + 1\n" + FILTER + "return self.up(1)\n",
    ],
)
def test_ordinary_code_is_taken(code, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(code)
    load([path])
    assert "One" in PLUGINS


@pytest.mark.parametrize("file", ["zones", "nodewise", "evicts", "queue"])
def test_plugins_as_users_write_them_are_taken(file):
    load([Path(__file__).with_name("ordinary") / f"{file}.py"])
    assert len(PLUGINS) == 1


ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("file", ["tests/support/custom_plugins.py", "loadtest/plugins.py"])
def test_plugins_that_tests_and_benches_use_keep_the_rules(file):
    source = (ROOT / file).read_text()
    kinds = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base) == "Plugin" for base in node.bases)
    ]
    assert kinds
    assert refused(ast.Module([*ast.parse("import numpy as np").body, *kinds], [])) == []
