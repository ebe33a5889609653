"""Planted bugs in the filters and scores; each shows in one of 60 plain cases."""

from tests.simulation.planted import Bug

PLUGINS = "shared.scheduling.plugins."


def _bug(name: str, module: str, old: str, new: str, first: tuple[int, ...] = ()) -> Bug:
    """`first` are seeds that see it, where few do."""
    return Bug(name, PLUGINS + module, (old, new), first=first)


BUGS = (
    _bug(
        "balance-of-the-pod-alone",
        "balanced_allocation",
        "share_cpu = (values[USED] + sig.cpu) / cpu",
        "share_cpu = sig.cpu / cpu",
    ),
    _bug(
        "balance-not-clipped",
        "balanced_allocation",
        "share_memory = 1.0 if share_memory > 1.0 else share_memory\n        return int(",
        "share_memory = share_memory if share_memory > 1.0 else share_memory\n        return int(",
        first=(35, 48),
    ),
    _bug(
        "balance-rounded",
        "balanced_allocation",
        "return int((2.0 - abs(share_cpu - share_memory)) * 50.0)",
        "return int((2.0 - abs(share_cpu - share_memory)) * 50.0 + 0.5)",
    ),
    _bug(
        "balance-without-a-resource",
        "balanced_allocation",
        "if not cpu or not memory:\n            return 100",
        "if not cpu or not memory:\n            return 50",
        first=(14, 40),
    ),
    _bug(
        "balance-of-best-effort-pods",
        "balanced_allocation",
        "return not sig.best_effort",
        "return True",
    ),
    _bug(
        "fit-leaves-one-unit",
        "node_resources_fit",
        "refused = cols[column] < amount",
        "refused = cols[column] <= amount",
    ),
    _bug(
        "fit-forgets-the-last-resource",
        "node_resources_fit",
        "for name, value in spec.requests:",
        "for name, value in spec.requests[:-1]:",
    ),
    _bug(
        "fit-always-resolvable",
        "node_resources_fit",
        "refused & ~hopeless",
        "refused",
    ),
    _bug(
        "fit-hopeless-when-equal",
        "node_resources_fit",
        "(table.allocatable[index] < amount)",
        "(table.allocatable[index] <= amount)",
    ),
    _bug(
        "least-allocated-rounds-the-sum",
        "node_resources_fit",
        "total += int(room / memory)",
        "total += int(room / memory + 0.5)",
    ),
    _bug(
        "least-allocated-counts-what-is-not-there",
        "node_resources_fit",
        "return total // weights if weights else 0",
        "return total // 2",
        first=(14, 40),
    ),
    _bug(
        "least-allocated-of-real-requests",
        "node_resources_fit",
        "room = values[ROOM] - sig.room_cpu",
        "room = values[ROOM] - 100.0 * sig.cpu",
    ),
    _bug(
        "excluded-names-ignored",
        "narrowed_nodes",
        "return np.logical_not(named) if others",
        "return np.logical_and(named, False) if others",
        first=(5, 59),
    ),
    _bug(
        "conflict-unseen",
        "narrowed_nodes",
        "return CONFLICT",
        "return None",
        first=(29, 61),
    ),
    _bug(
        "terms-are-anded",
        "node_affinity",
        "any_term |= term_matches(table, term)",
        "any_term = term_matches(table, term)",
    ),
    _bug(
        "selector-forgotten",
        "node_affinity",
        "matches &= table.labels(key).among((value,))",
        "matches |= table.labels(key).among((value,))",
    ),
    _bug(
        "empty-term-matches",
        "node_affinity",
        "if not needs:\n        return _none(table)",
        "if not needs:\n        return ~_none(table)",
        first=(5, 55),
    ),
    _bug(
        "not-in-needs-the-label",
        "node_affinity",
        "return np.logical_not(column.among(need.values))",
        "return np.logical_not(column.among(need.values)) & column.present()",
    ),
    _bug(
        "weight-of-the-last-term",
        "node_affinity",
        "raw[term_matches(table, preferred.term)] += preferred.weight",
        "raw[term_matches(table, preferred.term)] = preferred.weight",
    ),
    _bug(
        "greater-is-less",
        "node_affinity",
        'greater=need.operator == "Gt"',
        'greater=need.operator != "Gt"',
    ),
    _bug(
        "first-port-only",
        "node_ports",
        "table.ports.refusing(ports)",
        "table.ports.refusing(ports[:1])",
        first=(11, 43),
    ),
    _bug(
        "cordons-for-all",
        "node_unschedulable",
        "if not any(cordoned) or tolerated(spec.tolerations, TAINT):",
        "if not any(cordoned):",
    ),
    _bug(
        "any-toleration-ignores-cordons",
        "node_unschedulable",
        "if not any(cordoned) or tolerated(spec.tolerations, TAINT):",
        "if not any(cordoned) or spec.tolerations:",
        first=(8, 20),
    ),
    _bug(
        "no-execute-forgotten",
        "taint_toleration",
        "taint.effect in (NO_SCHEDULE, NO_EXECUTE)",
        "taint.effect in (NO_SCHEDULE,)",
    ),
    _bug(
        "preference-forgets-tolerations",
        "taint_toleration",
        "taint.effect == PREFER_NO_SCHEDULE and not tolerated(spec.tolerations, taint)",
        "taint.effect == PREFER_NO_SCHEDULE",
        first=(8, 16),
    ),
    _bug(
        "taint-scores-not-reversed",
        "taint_toleration",
        "    reverse = True\n",
        "    reverse = False\n",
    ),
    _bug(
        "only-no-schedule-compared",
        "tolerations",
        "if toleration.effect and toleration.effect != taint.effect:",
        'if toleration.effect == "NoSchedule" and toleration.effect != taint.effect:',
    ),
    _bug(
        "empty-key-tolerates-nothing",
        "tolerations",
        "if toleration.key and toleration.key != taint.key:",
        "if toleration.key != taint.key:",
    ),
    _bug(
        "skew-from-nothing",
        "pod_topology_spread",
        "_lowest(one, sums) if one.enough else 0",
        "0",
        first=(242, 283),
    ),
    _bug(
        "skew-without-itself",
        "pod_topology_spread",
        "sums + (one.itself - lowest)",
        "sums - lowest",
        first=(178, 235),
    ),
    _bug(
        "min-domains-forgotten",
        "pod_topology_spread",
        "int(np.count_nonzero(there)) + more >= rule.min_domains",
        "True",
        first=(334, 403),
    ),
    _bug(
        "spread-over-nodes-it-may-not-use",
        "pod_topology_spread",
        "if honored else None",
        "if False else None",
        first=(275, 319),
    ),
    _bug(
        "spread-where-a-key-is-missing",
        "pod_topology_spread",
        "counted = has_keys",
        "counted = np.ones(table.size, np.bool_)",
    ),
    _bug(
        "domains-not-weighed",
        "pod_topology_spread",
        "_ln(size + 2)",
        "_ln(3)",
    ),
    _bug(
        "spread-rounded-down",
        "pod_topology_spread",
        "(whole + (values - whole >= 0.5))",
        "whole",
    ),
    _bug(
        "default-spread-needs-all-keys",
        "pod_topology_spread",
        "needed = soft if needs_all_keys else []",
        "needed = soft",
        first=(97, 184),
    ),
    _bug(
        "first-of-its-kind-refused",
        "inter_pod_affinity",
        "if self.itself and not any(one.has_pods(counts) for one in self.affine):",
        "if False:",
    ),
    _bug(
        "affine-without-the-key",
        "inter_pod_affinity",
        "        refused = self.affine[0].domains.absent\n",
        "        refused = np.zeros(counts.nodes, np.bool_)\n",
    ),
    _bug(
        "anti-affinity-one-way",
        "inter_pod_affinity",
        "            existing |= one.by_node(counts) > 0\n",
        "            existing |= one.by_node(counts) > 99\n",
    ),
    _bug(
        "anti-affinity-by-one",
        "inter_pod_affinity",
        "            anti |= one.by_node(counts) > 0\n",
        "            anti |= one.by_node(counts) > 1\n",
    ),
    _bug(
        "required-terms-do-not-pull",
        "inter_pod_affinity",
        "(AFFINE, hard_weight)",
        "(AFFINE, 0)",
    ),
    _bug(
        "weights-are-one",
        "inter_pod_affinity",
        "raw += one.weight * one.by_node(counts)",
        "raw += one.by_node(counts)",
        first=(26, 76),
    ),
    _bug(
        "nearness-from-zero",
        "inter_pod_affinity",
        "share = (among - lowest)",
        "share = np.maximum(among, 0)",
    ),
    _bug(
        "equal-needs-no-value",
        "tolerations",
        "return toleration.value == taint.value",
        "return True",
    ),
)
