"""The static part of a signature: the nodes that pass the static filters, and score classes.

A score class is a set of nodes with equal raw values in every static score. Normalisation needs the
highest raw value among the feasible nodes, which depends on classes only: a pick changes class
terms (few), never stored scores of nodes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shared.model.columns import TOTAL_BYTES
from shared.model.objects import PodSpec
from shared.scheduling.api.plugin import StaticScore, normalise
from shared.scheduling.profile import DEFAULT, Plugins
from shared.scheduling.table.layout import I64, INFEASIBLE, Mask, Totals
from shared.scheduling.table.table import NodeTable

STATICS_MAX = 256
CODES_MAX = 1 << 62


class StaticResult:
    """The static part. `ok`: nodes that pass, None: all. `few`: their rows if they are at most half
    of all, else None. `class_of`: class of each row, None: one class only. `raws`: for each class
    its raw value in each static score.
    """

    __slots__ = ("applying", "class_of", "few", "number", "ok", "only_term", "plugins", "raws")

    def __init__(self, table: NodeTable, spec: PodSpec, plugins: Plugins = DEFAULT) -> None:
        self.plugins, self.number = plugins.static_scores, plugins.number
        self.ok = _passing(table, spec, plugins)
        rows = None if self.ok is None else np.flatnonzero(self.ok)
        self.few = rows if rows is not None and 2 * len(rows) <= table.size else None
        always = plugins.profile.always_scored
        self.applying = [one.applies(spec) or one.name in always for one, _ in self.plugins]
        self.class_of, self.raws = _classes([one.raw(table, spec) for one, _ in self.plugins])
        # With one class its term is always the same: the class is its own extreme.
        self.only_term = self._only_term() if self.class_of is None else 0

    def _only_term(self) -> int:
        return sum(
            weight * _score(plugin, raw, raw)
            for raw, (plugin, weight), applies in zip(
                self.raws[0], self.plugins, self.applying, strict=True
            )
            if applies
        )

    @property
    def bytes(self) -> int:
        """Return the memory held, bytes."""
        arrays = (self.ok, self.few, self.class_of)
        return sum(array.nbytes for array in arrays if array is not None)

    def counts(self, feasible: Mask) -> list[int]:
        """Return how many feasible nodes each class has."""
        if self.class_of is None:
            return [int(np.count_nonzero(feasible))]
        counts = np.bincount(self.class_of[feasible], minlength=len(self.raws))
        return [int(count) for count in counts]

    def normalised(self, counts: Sequence[int]) -> list[tuple[int, ...]]:
        """Return, for each class, the normalised score of each plugin (0 where it does not apply),
        with the extremes of the classes that have feasible nodes.
        """
        present = [raws for raws, count in zip(self.raws, counts, strict=True) if count]
        highest = [max((raws[i] for raws in present), default=0) for i in range(len(self.plugins))]
        # The values of a class without feasible nodes are never used; they are kept in range.
        return [
            tuple(
                _score(plugin, raw, top) if applies else 0
                for raw, top, (plugin, _), applies in zip(
                    raws, highest, self.plugins, self.applying, strict=True
                )
            )
            for raws in self.raws
        ]

    def class_scores(self, counts: Sequence[int]) -> list[int]:
        """Return, for each class, the weighted sum of its normalised scores."""
        if self.class_of is None:
            return [self.only_term]
        return [
            sum(weight * score for (_, weight), score in zip(self.plugins, scores, strict=True))
            for scores in self.normalised(counts)
        ]

    def totals(self, local: Totals, terms: Sequence[int]) -> Totals:
        """Return a new row of totals: the local scores plus each node's class term. Infeasible
        nodes stay negative.
        """
        if self.class_of is None:
            return with_class_scores(local, self.number(terms[0]))
        return with_class_scores(local, np.array(terms, self.number)[self.class_of])


def with_class_scores(local: Totals, terms: Totals | np.signedinteger[Any]) -> Totals:
    """Return local scores plus class terms; no term of 16 bits makes a refused node feasible."""
    if terms.itemsize == TOTAL_BYTES:
        return local + terms
    return np.where(local < 0, INFEASIBLE, local + terms)


def _score(plugin: StaticScore, raw: int, highest: int) -> int:
    if not plugin.is_normalised:
        return raw
    return normalise(min(raw, highest), highest, plugin.reverse)


def static_of(table: NodeTable, spec: PodSpec, plugins: Plugins) -> StaticResult:
    """Return the static part of a spec, computed once for all specs that static plugins cannot tell
    apart and kept while the nodes do not change. A trial's is not kept.
    """
    if table.parent is not None:
        return StaticResult(table, spec, plugins)
    version = (table.static_version, table.changes.restarts)
    if table.statics_of != version or len(table.statics) > STATICS_MAX:
        table.statics_of, table.statics = version, {}
    key = (plugins, plugins.static_parts(spec), _images(table, spec, plugins))
    static_result = table.statics.get(key)
    if static_result is None:
        static_result = table.statics[key] = StaticResult(table, spec, plugins)
    return static_result


def _images(table: NodeTable, spec: PodSpec, plugins: Plugins) -> tuple[object, ...]:
    """Return the images' part of the cache key; nothing while no node has an image of the pod."""
    stamp = table.images.stamp(plugins.images_of(spec))
    return (spec.images, spec.image_volumes, stamp) if stamp else ()


def _passing(table: NodeTable, spec: PodSpec, plugins: Plugins) -> Mask | None:
    refused: Mask | None = None
    for plugin in plugins.static_filters:
        mask = plugin.refuses(table, spec)
        if mask is not None:
            refused = mask if refused is None else refused | mask
    return None if refused is None else np.logical_not(refused)


def _classes(raws: Sequence[I64 | None]) -> tuple[I64 | None, list[tuple[int, ...]]]:
    given = [raw for raw in raws if raw is not None and raw.size]
    if not given:
        return None, [(0,) * len(raws)]
    codes = np.zeros(len(given[0]), np.int64)
    for raw in given:
        width = int(raw.max()) + 1
        if (int(codes.max()) + 1) * width > CODES_MAX:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        codes = codes * width + raw
    _, first, class_of = np.unique(codes, return_index=True, return_inverse=True)
    values = [tuple(0 if raw is None else int(raw[row]) for raw in raws) for row in first.tolist()]
    if len(values) == 1:
        return None, values
    return class_of.astype(np.int64), values
