"""Planted bugs in what only newer releases do; each shows in a few cases of newer_fields.py."""

from shared.model.release import V1_36, V1_37
from tests.simulation.planted import Bug

PLUGINS, OBJECTS = "shared.scheduling.plugins.", "shared.kubernetes.objects."
FEATURES, LIMITS = PLUGINS + "node_declared_features", PLUGINS + "volumes.node_volume_limits"
NARROWED, REQUESTS = PLUGINS + "narrowed_nodes", OBJECTS + "requests"
PODS, TOLERATIONS = OBJECTS + "pod_templates", PLUGINS + "tolerations"

BY_VERSION = {
    V1_36: (
        Bug("nodes-declare-everything", FEATURES, ("not needed.issubset", "needed.issuperset")),
        Bug("no-rule-restarts-all", PODS, ('== "RestartAllContainers"', '== "RestartAll"')),
        Bug("whole-pods-are-not-resized", REQUESTS, ("if not whole or not status", "if status")),
        Bug(
            "whole-pods-keep-what-is-infeasible",
            REQUESTS,
            ("highest = {} if _is_infeasible(status) else dict(whole)", "highest = dict(whole)"),
        ),
        Bug("equal-numbers-are-above", TOLERATIONS, ("found > asked", "found >= asked")),
        Bug("below-is-above", TOLERATIONS, ("else found < asked", "else found > asked")),
        Bug(
            "numbers-with-zeros",
            "shared.model.text",
            ("_INTEGER.fullmatch(text)", "text.isdigit()"),
        ),
    ),
    V1_37: (
        Bug("drivers-are-not-needed", LIMITS, ("if needs_drivers else {}", "if False else {}")),
        Bug(
            "installed-lack",
            LIMITS,
            ("lacking = ~csi.installed", "lacking = csi.installed"),
        ),
        Bug("any-name-will-do", NARROWED, ("spec.node_name not in names", "False")),
        Bug("affinity-narrows-alone", NARROWED, ("others | ~named", "~named")),
        Bug(
            "pods-have-no-sums",
            REQUESTS,
            ("if is_whole and status", "if False and status"),
        ),
        Bug(
            "allocated-as-asked",
            REQUESTS,
            ("_formula(spec, allocated)", "_formula(spec, asked)"),
        ),
        Bug("actual-is-as-allocated", REQUESTS, ("_formula(spec, actual)", "{}")),
        Bug("never-completed", REQUESTS, ("or release.version >= V1_37)", "or False)")),
    ),
}
BUGS = tuple(bug for bugs in BY_VERSION.values() for bug in bugs)
