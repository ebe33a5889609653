"""Users' plugins as steps of a profile: called, checked, and contained.

A plugin that raises in a filter refuses every node, with a message that names the exception and its
line; one that raises in a score adds 0. Both are counted (failures.py).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shared.model.objects import PodSpec
from shared.scheduling.api.custom.failures import count_answer, count_error
from shared.scheduling.api.custom.plugin import LOWER, Amounts, Nodes, Plugin, Pod
from shared.scheduling.table.layout import F64, I64, Mask

if TYPE_CHECKING:
    from shared.scheduling.table.table import NodeTable

HIGHEST = 100
RAW_MAX = 1 << 31


def asked(plugin: Plugin, method: str, question: Callable[[], Any]) -> tuple[Any, str]:
    """Call the plugin's method; return the answer and the error text, which is the same for all
    methods.
    """
    try:
        return question(), ""
    except Exception as error:  # an error in a user's plugin must not end a shard
        line = count_error(plugin, method, error)
        return None, f"plugin {plugin.name} raised {type(error).__name__} at line {line}"


def word_of(plugin: Plugin, method: str, spec: PodSpec) -> tuple[str | None, str]:
    """Return a method's text that says why not, or None; and the error text."""
    pod = Pod(spec, plugin.reads)
    answer, wrong = asked(plugin, method, lambda: getattr(plugin, method)(pod))
    if not wrong and answer is not None and not isinstance(answer, str):
        count_answer(plugin, method, "gave no text")
        wrong = f"plugin {plugin.name}: {method} gave no text"
    return answer, wrong


def _either(plugin: Plugin, method: str) -> str:
    """Return which of `method` and `method_node` the plugin has."""
    return f"{method}_node" if plugin.has(f"{method}_node") else method


def _one_by_one(plugin: Plugin, table: "NodeTable", ask: Callable[..., Any], pod: Pod) -> list[Any]:
    plugin.scalar_calls += table.size
    return [ask(pod, node) for node in table.shown()]


def _column(values: Any, size: int, kind: type[Any]) -> Any:
    """Return answers as an array of the right length. Raises ValueError."""
    column = np.asarray(values)
    if column.shape != (size,):
        raise ValueError(f"shape {column.shape} for {size} nodes")
    is_right = column.dtype.kind == "b" if kind is np.bool_ else column.dtype.kind in "iuf"
    if not is_right:
        raise ValueError(f"dtype {column.dtype}")
    return column.astype(kind)


class CustomPreFilter:
    """`pre_filter`: the pod is refused on every node. `message` is the last reason."""

    reads: tuple[str, ...] = ()  # the parts that the plugin reads have other names

    def __init__(self, plugin: Plugin) -> None:
        self.plugin, self.name, self.message = plugin, plugin.name, ""

    def rejects(self, spec: PodSpec) -> str | None:
        """Return why the plugin rejects the pod; None: it does not."""
        answer, wrong = word_of(self.plugin, "pre_filter", spec)
        return wrong or answer

    def refuses(self, table: "NodeTable", spec: PodSpec) -> Mask | None:
        """Return all nodes or none."""
        message = self.rejects(spec)
        if message is None:
            return None
        self.message = message
        return np.ones(table.size, np.bool_)


class CustomFilter:
    """`filter` or `filter_node`. `message` is that of the last answer."""

    reads: tuple[str, ...] = ()  # the parts that the plugin reads have other names

    def __init__(self, plugin: Plugin) -> None:
        self.plugin, self.name = plugin, plugin.name
        self.message = self._own = plugin.message or f"node(s) were refused by {plugin.name}"

    def refuses(self, table: "NodeTable", spec: PodSpec) -> Mask | None:
        """Return the nodes that the plugin refuses; all of them if it fails."""
        passing, wrong = asked(
            self.plugin, _either(self.plugin, "filter"), lambda: self._passing(table, spec)
        )
        self.message = wrong or self._own
        if wrong:
            return np.ones(table.size, np.bool_)
        return None if passing is None else ~passing

    def _passing(self, table: "NodeTable", spec: PodSpec) -> Mask | None:
        plugin, pod = self.plugin, Pod(spec, self.plugin.reads)
        if plugin.has("filter_node"):
            answers = _one_by_one(plugin, table, plugin.filter_node, pod)
            return np.fromiter(map(bool, answers), np.bool_, table.size)
        found = plugin.filter(pod, Nodes(table))
        if found is None:
            return None
        passing: Mask = _column(found, table.size, np.bool_)
        return passing


def _applies(plugin: Plugin, spec: PodSpec) -> bool:
    if not plugin.has("pre_score"):
        return True
    answer, _ = asked(plugin, "pre_score", lambda: bool(plugin.pre_score(Pod(spec, plugin.reads))))
    return bool(answer)


class CustomScore:
    """`score` or `score_node` by the node's object alone."""

    reads: tuple[str, ...] = ()  # the parts that the plugin reads have other names

    def __init__(self, plugin: Plugin) -> None:
        self.plugin, self.name = plugin, plugin.name
        self.reverse = plugin.normalize == LOWER
        self.is_normalised = bool(plugin.normalize)

    def raw(self, table: "NodeTable", spec: PodSpec) -> I64 | None:
        """Return the plugin's scores, cut to the valid range."""
        if not self.applies(spec):
            return None
        found, _ = asked(self.plugin, _either(self.plugin, "score"), lambda: self._raw(table, spec))
        if found is None:
            return None
        cut: I64 = np.clip(found, 0, RAW_MAX if self.is_normalised else HIGHEST)
        return cut

    def _raw(self, table: "NodeTable", spec: PodSpec) -> I64 | None:
        plugin, pod = self.plugin, Pod(spec, self.plugin.reads)
        if plugin.has("score_node"):
            found: Any = _one_by_one(plugin, table, plugin.score_node, pod)
        else:
            found = plugin.score(pod, Nodes(table))
        if found is None:
            return None
        raw: I64 = _column(found, table.size, np.int64)
        return raw

    def applies(self, spec: PodSpec) -> bool:
        """Return the answer of `pre_score`."""
        return _applies(self.plugin, spec)


class CustomAmounts:
    """`score` by amounts, of one pod."""

    def __init__(self, plugin: Plugin, table: "NodeTable", spec: PodSpec) -> None:
        self._plugin, self._pod, self._scored = plugin, Pod(spec, plugin.reads), table.scored

    @staticmethod
    def applies(plugin: Plugin, spec: PodSpec) -> bool:
        """Return the answer of `pre_score`."""
        return _applies(plugin, spec)

    def scores(self, cols: F64) -> I64:
        """Return the scores of gathered nodes, shape (m,)."""
        size = cols.shape[1]
        found, _ = asked(self._plugin, "score", lambda: self._column(cols, size))
        return np.zeros(size, np.int64) if found is None else np.clip(found, 0, HIGHEST)

    def _column(self, cols: F64, size: int) -> I64 | None:
        found = self._plugin.score(self._pod, Amounts(cols, self._scored))
        if found is None:
            return None
        scores: I64 = _column(found, size, np.int64)
        return scores

    def score(self, values: Sequence[float]) -> int:
        """Return the score of one node."""
        return int(self.scores(np.array(values).reshape(-1, 1))[0])
