"""Which code of plugins is refused because a replay could differ, and which must not be."""

import ast
from pathlib import Path

import pytest

from muster.cli.errors import UsageFault
from muster.user_plugins.load import load
from muster.user_plugins.rules import refused
from shared.scheduling.api.custom import PLUGINS

HEAD = "from muster.plugin import *\nimport numpy as np\nclass One(Plugin):\n"
FILTER = " def filter(self, pod, nodes):\n  "
BODY = HEAD + FILTER
SET = "line 5: the order of a set"
LOOP = "line 5: a loop over a set"
TEXT = "line 5: a text with an address in memory"
DATES = "line 5: numpy's type of dates"
DEFAULT = "a default that can be changed"

LIMITS = """
from dataclasses import dataclass, field
from msgspec import Struct

@dataclass(frozen=True)
class Limits:
    zones: frozenset[str] = frozenset()
    weights: dict[str, int] = field(default_factory=dict)
    most: int = 3
"""

TALLY = """
class Tally:
    def __init__(self): self.most = 0
    def note(self, x):
        self.most = max(self.most, x)
"""


def body(*lines: str) -> str:
    return BODY + "\n  ".join(lines) + "\n"


def after(top: str, *lines: str) -> str:
    """Something at the top of the file, and the body of a method."""
    return top + "\n" + body(*lines)


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    PLUGINS.clear()


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        # Objects of the file's own classes, where they outlast the question.
        (TALLY + "T = Tally()\n" + body("T.note(1)"), "line 5: keeping something in T"),
        (
            TALLY + HEAD + " def __init__(self): self.t = Tally()\n" + FILTER + "self.t.note(1)\n",
            "line 5: keeping something on self",
        ),
        (
            "class Tally:\n seen = []\n def note(self, x): self.seen.append(x)\n"
            + body("Tally().note(1)"),
            "line 3: keeping something in Tally",
        ),
        # The order of a set, by whichever name it goes.
        (body("s = set('xyz')", "for k in s: return k"), "line 6: a loop over a set"),
        (body("s = {1}; s |= {2}", "return [*s]"), "line 6: the order of a set"),
        (body("a = {'x': 1}", "for k in a.keys() & a.keys(): return k"), "line 6: a loop over a"),
        (body("a = {'x': 1}; k = a.keys()", "return list(k - {'y'})"), "line 6: the order of a s"),
        (body("return list(set('a') | set('b'))"), SET),
        (body("return [x for x in set('a').union('b')]"), LOOP),
        (body("a, b = {1, 2}"), SET),
        (body("s = {1}", "t = s", "return tuple(t)"), "line 7: the order of a set"),
        (body("s = {1} if nodes else (1,)", "return next(iter(s))"), "line 6: the order of a set"),
        (body("s = ()", "if nodes: s = {1}", "return list(s)"), "line 7: the order of a set"),
        (body("return max({'a', 'b'}, key=len)"), SET),
        (body("return sorted(set('ab'), key=len)"), SET),
        (body("return sorted((x for x in set('ab')), key=len)"), SET),
        (body("return sum({0.1, 0.2})"), SET),
        (body("s = set(pod['x'])", "return sum(s)"), "line 6: the order of a set"),
        (body("return sum(x * 0.1 for x in {1, 2})"), SET),
        (body("return str({1, 2})"), SET),
        (body("return f'{set()}'"), SET),
        (body("return '%s' % ({1, 2},)"), SET),
        (body("return dict.fromkeys({1, 2})"), SET),
        (body("return {k: 1 for k in {1, 2}}"), LOOP),
        (body("return np.array(list({1, 2}))"), SET),
        (body("return Evict(0, {1, 2})"), SET),
        (body("d = {}; d['a'] = {1}", "for x in d['a']: return x"), "line 6: a loop over a set"),
        (body("d = [{1}]", "for s in d:", " return [x for x in s]"), "line 7: a loop over a set"),
        (
            body("d = {'a': {1}}", "for k, v in d.items():", " for x in v: return x"),
            "line 7: a loop over a set",
        ),
        (
            after(
                "from collections import defaultdict",
                "d = defaultdict(set)",
                "for x in d[0]: return x",
            ),
            "line 7: a loop over a set",
        ),
        (after("S = frozenset('ab')", "for x in S: return x"), "line 6: a loop over a set"),
        (HEAD + " S = {1, 2}\n" + FILTER + "for x in self.S: return x\n", "line 6: a loop over a"),
        (
            "def f(s):\n return [x for x in s][0]\n" + body("return f(frozenset('xyz'))"),
            "line 2: a loop over a set",
        ),
        (
            "def f():\n return {1, 2}\n" + body("return list(f())"),
            "line 7: the order of a set",
        ),
        ("def f(s: 'set[str]'):\n return list(s)\n" + body("pass"), "line 2: the order of a set"),
        (
            body("return self.first({1})") + " def first(self, s):\n  for x in s: return x\n",
            "line 7: a loop over a set",
        ),
        (
            "from msgspec import Struct\nclass L(Struct):\n labels: frozenset[str]\n"
            + HEAD
            + " args: L\n"
            + FILTER
            + "return list(self.args.labels)\n",
            "line 9: the order of a set",
        ),
        (
            "from itertools import chain\n" + body("return chain({1, 2})"),
            "line 6: the order of a set",
        ),
        (
            LIMITS + HEAD + FILTER + "d = {'a': Limits()}; return [k for k in d['a'].zones]\n",
            "a loop over a set",
        ),
        (
            LIMITS + HEAD + " def one(self, x: Limits): return list(x.zones)\n" + FILTER + "pass\n",
            "the order of a set",
        ),
        (body("g = (x for x in {1, 2})", "return list(g)"), "line 6: the order of a set"),
        (body("for x in map(str, {1, 2}): return x"), LOOP),
        (body("return (x for x in {1, 2})"), SET),
        (
            "S = []\n" + HEAD + " def f(self, s=S): s.append(1)\n" + FILTER + "pass\n",
            "line 5: keep",
        ),
        # Clocks.
        (body("return np.array('now', dtype='M8[s]')"), DATES),
        (body("return np.array(['now']).astype('datetime64[s]')"), DATES),
        (body("return np.array(['today'], 'datetime64[D]')"), DATES),
        (body("t = '<M8[s]'", "return np.zeros(1, t)"), "line 6: numpy's type of dates"),
        (body("return np.array([('now',)], dtype=[('t', 'M8[s]')])"), DATES),
        (body("return np.dtype('M8[s]')"), DATES),
        (body("return np.busday_count('2020-01-01', 'today')"), "line 5: np.busday_count is not"),
        # What is there after the question.
        (HEAD + " def pre_filter(self, pod, seen=[]):\n  seen.append(1)\n", f"line 4: {DEFAULT}"),
        (HEAD + " def pre_filter(self, pod, *, seen={}): pass\n", f"line 4: {DEFAULT}"),
        (body("f = lambda x, seen=[]: seen"), f"line 5: {DEFAULT}"),
        (HEAD + " def pre_filter(self, pod, n=iter('ab')): pass\n", f"line 4: {DEFAULT}"),
        (HEAD + " def pre_filter(self, pod, n=np.zeros(1)): pass\n", f"line 4: {DEFAULT}"),
        (
            "import itertools\nC = itertools.count()\n" + body("for x in C: return x"),
            "line 7: keeping something in C",
        ),
        (
            "from itertools import count\nC = count()\n" + body("return list(zip('ab', C))"),
            "line 7: keeping something in C",
        ),
        (
            "def g():\n yield 1\nC = g()\n" + body("return [x for x in C]"),
            "line 8: keeping something in C",
        ),
        (after("C = (x for x in 'ab')", "return list(C)"), "line 6: keeping something in C"),
        (
            HEAD + " C = iter('ab')\n" + FILTER + "return next(self.C)\n",
            "line 6: keeping something on self",
        ),
        (
            HEAD + " def __init__(self): self.n = []\n" + FILTER + "n = self.n; n.append(1)\n",
            "line 6: keeping something on self",
        ),
        (
            HEAD + " def __init__(self): self.n = np.zeros(1)\n" + FILTER + "n = self.n; n += 1\n",
            "line 6: keeping something on self",
        ),
        (after("S = []", "s = S", "s.append(1)"), "line 7: keeping something in S"),
        (
            after("S = {'a': []}", "for s in S.values(): s.append(1)"),
            "line 6: keeping something in S",
        ),
        (
            "S = []\ndef f(s):\n s.append(1)\n" + body("f(S)"),
            "line 3: keeping something in S",
        ),
        (after("S = np.zeros(3)", "np.add(1, 2, out=S)"), "line 6: keeping something in S"),
        (after("S = np.zeros(3)", "np.copyto(S, 1)"), "line 6: keeping something in S"),
        (after("S = np.zeros(3)", "np.add.at(S, 0, 1)"), "line 6: keeping something in S"),
        (
            "from heapq import heappush\nS = []\n" + body("heappush(S, 1)"),
            "line 7: keeping something in S",
        ),
        ("def f(): pass\n" + body("f.count = 1"), "line 6: keeping something in f"),
        (
            "from functools import cache\n@cache\ndef f(x):\n return []\n" + body("f(1).append(2)"),
            "line 9: keeping something in what f remembers",
        ),
        (body("pod.x = 1"), "line 5: changing pod, which the plugin is given,"),
        (
            HEAD + " def filter_node(self, pod, node): node.labels['a'] = 'b'\n",
            "line 4: changing node, which the plugin is given,",
        ),
        (body("for one in nodes.each(): one.labels['a'] = 'b'"), "line 5: changing a node, which"),
        (body("nodes.pods(0)[0].x = 1"), "line 5: changing a pod, which the plugin is given,"),
        (body("super().x = 1"), "line 5: keeping something on self"),
        # Addresses.
        (body("return str(object())"), TEXT),
        (body("return f'{pod}'"), TEXT),
        (body("return repr(nodes)"), TEXT),
        (body("return '%s' % pod"), TEXT),
        (body("return '{}'.format(pod)"), TEXT),
        (body("return ','.join(map(str, [pod]))"), TEXT),
        (body("return str(nodes.pods(0))"), TEXT),
        (body("return str(lambda: 1)"), TEXT),
        (body("return str(x for x in 'ab')"), TEXT),
        ("class P: pass\n" + body("return str(P())"), "line 6: a text with an address in memory"),
        ("def f(x):\n return str(x)\n" + body("return f(pod)"), "line 2: a text with an address"),
        (body("return np.add.reduce([0.1])"), "line 5: np.add.reduce is not allowed"),
        (body("yield from {1}"), SET),
        # What memory had.
        (body("return np.ndarray(3, dtype='int64')"), "line 5: np.ndarray(), whose numbers are"),
        (body("return np.divide(1, 2, where=[True])"), "line 5: where= without out="),
        # What modules have beside what they are for.
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
def test_what_a_replay_could_not_repeat_is_refused(code, rule, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(code)
    with pytest.raises(UsageFault) as caught:
        load([path])
    assert rule in str(caught.value)
    assert "a replay would differ; " in str(caught.value), "and what to do in its place"


@pytest.mark.parametrize(
    "code",
    [
        # Sets, where their order does not matter.
        body("s = set('xyz')", "return None if pod['labels.a'] in s else 'no'"),
        body("s = {x for x in 'ab'}", "for k in sorted(s): return k"),
        body("s = set('b')", "s = sorted(s)", "for k in s: return k"),
        body("s = set('b')", "s.add('c'); s.discard('b'); s.update('de')", "return len(s)"),
        body("s = {1, 2}", "return any(x > 1 for x in s) and all(x > 1 for x in s)"),
        body("s = {1, 2}", "return min(s) + max(s) + sum({1, 2}) + sum(1 for x in s)"),
        body("s = {1, 2}", "return sorted(x for x in s if x), sorted([x for x in s])"),
        body("s = {'a', 'bc'}", "return sorted(s, key=lambda x: (len(x), x))"),
        body(
            "s = {'a', 'bc'}",
            "return any(map(str.isdigit, s)), sum(map(len, s)), sorted(map(str, s))",
        ),
        body("s = {'a', 'bc'}", "own = (x for x in s if x)", "return sorted(own)"),
        body("return set().union(*({x} for x in {1, 2}))"),
        LIMITS + HEAD + FILTER + "d = {'a': Limits()}; return [k for k in d['a'].weights]\n",
        "class Labels:\n zones = {'a'}\n" + body("return [x for x in nodes.each()[0].zones]"),
        body("s = {1} & {2} | {3} - {4}", "return s <= {1}, s == {2}, not s, bool(s)"),
        body("a = {'x': 1}", "return sorted(a.keys() & {'x'})", "return len(a.keys() - {'y'})"),
        body("a = {'x': 1}", "for k in a.keys(): pass", "for k, v in a.items(): str(k + v)"),
        body("s = frozenset('ab')", "return nodes.labelled('zone', *s) & ~nodes.named(*s)"),
        body("return {1}.isdisjoint({2}), {1}.issubset({2}), {1}.union({2}, {3})"),
        body("groups = {}", "groups.setdefault('a', set()).add(1)", "return len(groups['a'])"),
        body("groups = [{1}, {2}]", "return any(1 in one for one in groups)"),
        body("seen = set()", "for x in 'ab':", " if x not in seen:", "  seen.add(x)"),
        body("return isinstance(pod['x'], set | frozenset)"),
        body("s = {x.lower() for x in {'A', 'b'}}", "return 'a' in s"),
        body("return np.isin(nodes.number('a'), sorted({1, 2}))"),
        after("S = frozenset({'a'})", "return pod['labels.a'] in S"),
        "def known(x, s):\n return x in s\n" + body("return known('a', {'a'})"),
        LIMITS + HEAD + " args: Limits\n" + FILTER + "return pod['x'] in self.args.zones\n",
        LIMITS + HEAD + " args: Limits\n" + FILTER + "return Limits({'a'}).zones >= {'b'}\n",
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
        # Words.
        body("return f'{pod[\"labels.a\"]} is too large: {len(nodes)}'"),
        body("try: return int(pod['a'])", "except ValueError as error: return f'bad: {error}'"),
        body("return ', '.join(f'{k}={v}' for k, v in sorted(pod['nodeSelector'].items()))"),
        body("return '%s of %d' % (pod['a'], 3) + '{:>3}'.format(len(nodes)) + str([1, 2])"),
        body("a, _, b = pod['a'].partition('=')", "return a.split(',')[0].strip() + b"),
        body("return [f'{one.name} {one.labels}' for one in nodes.each()]"),
        "from dataclasses import dataclass\n@dataclass\nclass P:\n a: int\n"
        + body("return str(P(1))"),
        "from enum import Enum\nclass Tier(Enum):\n A = 'a'\n" + body("return str(Tier('a'))"),
        "from typing import NamedTuple\nclass P(NamedTuple):\n a: int\n"
        + body("return f'{P(1)._replace(a=2)}'"),
        "import re\nTIER = re.compile('a+')\n"
        + body("found = TIER.fullmatch('a')", "return found and found[0]"),
        # Objects of one question.
        TALLY
        + body("t = Tally()", "for one in nodes.each(): t.note(len(one.name))", "return t.most"),
        "from msgspec import Struct\nclass Tally(Struct):\n seen: list = []\n"
        " def note(self, x):\n  self.seen.append(x)\n" + body("Tally().note(1)"),
        # Lists and dicts of one question, and constants.
        body("found = []", "for one in nodes.each(): found.append(one.name)", "found.sort()"),
        body("d = {}", "for x in 'ab': d[x] = d.get(x, 0) + 1", "return max(d.values())"),
        body("gone = nodes.pods(0)", "gone.reverse()", "return Evict(0, gone[:2])"),
        after("SIZES = {'a': 1}", "return SIZES.get(pod['a'], 0) + SIZES['a']"),
        after("SIZES = [3, 1]\nSIZES.sort()", "s = sorted(SIZES); s.append(1)", "return s"),
        after("SIZES = [3, 1]", "s = SIZES.copy(); s.append(1)", "t = SIZES[:]; t.append(2)"),
        after("SIZES = [3, 1]", "s = list(SIZES); s.pop()", "s = [*SIZES]; s.pop()"),
        after("SIZES = ('a', 'b')", "for at, one in enumerate(SIZES): pass", "return at"),
        after("MOST = 3", "most = MOST; most += 1", "return most"),
        LIMITS + HEAD + " args: Limits\n" + FILTER + "most = self.args.most; most += 1\n",
        HEAD + " def __init__(self):\n  self.most = self.args['most'] * 2\n"
        "  self.names = []\n  self.names.append('a')\n"
        + FILTER
        + "return self.names[0], self.most\n",
        HEAD
        + " def __init__(self):\n  super().__init__()\n  self.x = 1\n"
        + FILTER
        + "return self.x\n",
        body("for one in nodes.each(): labels = dict(one.labels); labels['a'] = 'b'"),
        body("return self.update(pod)") + " def update(self, pod, more=()): return [*more]\n",
        "from functools import cache\n@cache\ndef f(x):\n return x * 2\n" + body("return f(2)"),
        "import itertools as it\n" + body("return list(zip('ab', it.count()))"),
        "from collections import Counter, defaultdict, deque\n"
        + body("d = defaultdict(list)", "d['a'].append(1)", "return Counter('aab')['a'], deque(d)"),
        "from heapq import heappush, nsmallest\n"
        + body("h = []", "heappush(h, (1, 'a'))", "return nsmallest(2, h)"),
        "from functools import reduce\nimport operator\n"
        + body("return reduce(operator.and_, [nodes.tainted('a'), nodes.tainted('b')])"),
        body("def deeper(x): return x + 1", "return max(map(deeper, [1, 2]), key=lambda x: -x)"),
        body("match pod['a']:", " case 'x' | 'y': return None", " case other: return other"),
        "import string\n" + body("def f(string): return string", "return f('a')"),
        "from __future__ import annotations\nimport collections.abc\n"
        "def f(x: collections.abc.Sequence[str]) -> list[str]:\n return list(x)\n" + body("f('a')"),
        body("yield_ = (x for x in 'ab')", "return list(yield_)"),
        body("i = iter('ab')", "return next(i) + next(i)"),
        body("while True:", " x = [1]", " x.append(2)", " break", "return x[0]"),
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


@pytest.mark.parametrize("file", ["shared/testing/custom_plugins.py", "loadtest/plugins.py"])
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
