"""Planted bugs in the handling of configurations; each shows in a few configured cases."""

from tests.simulation.planted import Bug

SCORES, PROFILE = "shared.scheduling.plugins.resource_scores", "shared.scheduling.profile"
PLUGINS = "shared.configuration.plugins"
FIT, AFFINITY = (
    "shared.scheduling.plugins.node_resources_fit",
    "shared.scheduling.plugins.node_affinity",
)


def _bug(name: str, module: str, old: str, new: str, first: tuple[int, ...] = ()) -> Bug:
    """`first` are seeds that see it, where few do."""
    return Bug(name, module, (old, new), first=first)


BUGS = (
    _bug("curve-cut-below", SCORES, "rise // run if rise >= 0 else -(-rise // run)", "rise // run"),
    _bug(
        "curve-rounded-down",
        SCORES,
        "(2 * total + weights) // (2 * weights) if self._has_curve",
        "total // weights if self._has_curve",
        first=(177, 195),
    ),
    _bug(
        "curve-counts-zeros",
        SCORES,
        "                if not percent:\n                    continue\n",
        "",
        first=(177, 501),
    ),
    _bug(
        "weights-forgotten",
        SCORES,
        "            total += percent * part.weight\n            weights += part.weight\n",
        "            total += percent\n            weights += 1\n",
    ),
    _bug(
        "never-too-full",
        SCORES,
        "min(max(amount, 0.0), have) * PERCENT",
        "max(amount, 0.0) * PERCENT",
    ),
    _bug(
        "balance-of-three-as-of-two",
        SCORES,
        "    if len(shares) == 2:\n        return abs(",
        "    if len(shares) >= 2:\n        return abs(",
        first=(147, 443),
    ),
    _bug(
        "balance-not-clipped",
        SCORES,
        "shares.append(min(used / have, 1.0))",
        "shares.append(used / have)",
    ),
    _bug("unasked-resources-count", PROFILE, "if ask or name == EPHEMERAL_STORAGE:", "if True:"),
    _bug(
        "storage-must-be-asked-for",
        PROFILE,
        "if ask or name == EPHEMERAL_STORAGE:",
        "if ask:",
        first=(142, 398),
    ),
    _bug("strategy-of-real-requests", PROFILE, "            if real:\n", "            if True:\n"),
    _bug("nothing-scores-0", PROFILE, "has_extenders else 1", "has_extenders else 0"),
    _bug(
        "ports-always-checked",
        PROFILE,
        "self.checks_ports = PORTS in self.filters",
        "self.checks_ports = True",
        first=(346, 370),
    ),
    _bug(
        "affinity-weight",
        PROFILE,
        "tuple((plugin, weight) for plugin, weight in weighed if weight)",
        "tuple((plugin, weight + 1) for plugin, weight in weighed if weight)",
    ),
    _bug(
        "groups-are-names", FIT, 'resource.partition("/")[0] in', "resource in", first=(547, 1199)
    ),
    _bug("huge-pages-are-extended", FIT, 'return "/" in resource and', "return", first=(344, 469)),
    _bug(
        "added-terms-are-anded",
        AFFINITY,
        "any_term |= term_matches(table, term)\n    return",
        "any_term = term_matches(table, term)\n    return",
    ),
    _bug(
        "added-preferences-forgotten",
        AFFINITY,
        "(*spec.affinity_preferred, *self._added)",
        "spec.affinity_preferred",
    ),
    _bug(
        "named-plugins-come-last",
        PLUGINS,
        "return (*first, *middle, *last)",
        "return (*middle, *first, *last)",
    ),
    _bug(
        "score-weight-is-that-of-all",
        PLUGINS,
        "(*multi.enabled, *sets[SCORE].enabled)",
        "(*sets[SCORE].enabled, *multi.enabled)",
    ),
    _bug(
        "replaced-plugins-keep-their-weight",
        PLUGINS,
        "named.pop(one.name, one)",
        "(named.pop(one.name, one), one)[1]",
    ),
)
