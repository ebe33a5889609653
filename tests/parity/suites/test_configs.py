"""Cases with configurations: no difference to kube-scheduler, and every planted bug shows."""

import json
from functools import cache
from typing import Any

import pytest

from tests.parity.comparison.compare import differences
from tests.parity.comparison.muster_answer import our_answer, told
from tests.parity.generators import preemption
from tests.parity.generators.configs import CHANGES, NAMES, SOFT, configured, preempting_configured
from tests.parity.generators.kinds import IN_CI
from tests.parity.generators.rules import DISK, HOSTNAME, ZONE
from tests.parity.oracle.client import Oracle
from tests.parity.planted.configs import BUGS
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug
from tests.support.builders import make_node, make_pod

CI_CASES, PLANTED_CASES, SHRINK_TRIES, RULED_CASES = IN_CI["configs"], 120, 300, 60
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


def test_a_filter_that_fails_with_nominated_pods_comes_before_one_that_needs_them(oracle: Oracle):
    """Affinity is met where the nominated pod is, but there is no room beside it."""
    app = {"app": "c"}
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": app}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    def pod(name: str, node: str = "", **spec: Any) -> dict[str, Any]:
        builder = make_pod(name).metadata(namespace="default").requests(cpu="2").spec(**spec)
        if node:
            builder.labels(app).status(nominatedNodeName=node)
        return builder.obj()

    node = make_node("n").hostname().capacity(cpu="3", memory="4Gi").obj()
    order = [{"name": "InterPodAffinity"}, {"name": "NodeResourcesFit"}]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"filter": {"enabled": order}}}],
    }
    objects = [node, pod("nominated", "n")]
    case = {"objects": objects, "pods": [pod("asked", affinity=near)], "config": config}
    theirs = oracle.ask(case)
    assert theirs["pods"][0]["nodes"]["n"]["plugin"] == "NodeResourcesFit"
    assert differences(our_answer(case), theirs) == []


@pytest.mark.slow
def test_no_case_differs(oracle: Oracle):
    theirs = oracle.ask_all(configured(seed) for seed in range(CI_CASES))
    for seed, answer in enumerate(theirs):
        if differences(our_answer(configured(seed)), answer):
            pytest.fail(told(seed, configured(seed), oracle.ask, SHRINK_TRIES))


def with_rules(seed: int) -> dict[str, Any]:
    """A case whose one profile adds rules that no API server would accept in a pod."""
    need = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-a"]}]}
    disk = {"matchExpressions": [{"key": DISK, "operator": "Exists"}]}
    zones = {"maxSkew": 1, "topologyKey": ZONE, "nodeAffinityPolicy": "Foo", "minDomains": seed % 3}
    hosts = {"maxSkew": 1, "topologyKey": HOSTNAME, "minDomains": 9, "matchLabelKeys": ["app"]}
    soft = [{"weight": 250, "preference": need}, {"weight": 130, "preference": disk}]
    spread = [
        {**zones, "whenUnsatisfiable": "DoNotSchedule"},
        {**hosts, "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "Honor"},
    ]
    found = {
        "NodeAffinity": {"addedAffinity": {SOFT: [*soft, {"preference": disk}]}},
        "PodTopologySpread": {"defaultingType": "List", "defaultConstraints": spread},
    }
    case = configured(seed)
    profile = {"pluginConfig": [{"name": name, "args": args} for name, args in found.items()]}
    names = {pod["spec"].get("schedulerName", "default-scheduler") for pod in case["pods"]}
    profiles = [{**profile, "schedulerName": name} for name in sorted(names)]
    return {**case, "config": {**case["config"], "profiles": profiles}}


def test_no_case_differs_with_rules_allowed_only_in_profiles(oracle: Oracle):
    changed = 0
    for seed, theirs in enumerate(oracle.ask_all(map(with_rules, range(RULED_CASES)))):
        ours = our_answer(with_rules(seed))
        assert "error" not in theirs, f"seed {seed}: {theirs}"
        assert differences(ours, theirs) == [], f"seed {seed}"
        case = with_rules(seed)
        for profile in case["config"]["profiles"]:
            del profile["pluginConfig"]
        changed += our_answer(case) != ours
    assert changed > RULED_CASES // 2


def test_preemption_follows_the_profile(oracle: Oracle):
    helped = 0
    seeds = range(IN_CI["preempt-configs"])
    theirs = oracle.ask_all(preempting_configured(seed) for seed in seeds)
    for seed, answer in enumerate(theirs):
        asked = preempting_configured(seed)
        assert "error" not in answer, f"seed {seed}: {answer}"
        assert preemption.differences(asked, our_answer(asked), answer) == [], f"seed {seed}"
        helped += any(pod.get("preemption", {}).get("candidates") for pod in answer["pods"])
    assert helped >= len(seeds) // 5


CLAIMS, CONFIG = "shared.model.preemption.post_filter", "shared.configuration.scheduler_config"
SAID = (
    Bug("claims-are-not-said", CLAIMS, ("* (claims == FIRST)", "* False")),
    Bug("claims-are-said-first-alone", CLAIMS, ("* (claims == LAST)", "* False")),
    Bug("claims-without-a-place", CONFIG, ("return NOWHERE", "return FIRST")),
)


@pytest.mark.parametrize("bug", SAID, ids=[bug.name for bug in SAID])
def test_a_change_in_post_filters_message_is_seen(bug: Bug):
    """The unchanged answers are kube-scheduler's, as shown above."""
    for seed in range(IN_CI["preempt-configs"]):
        asked = preempting_configured(seed)
        before = our_answer(asked)
        with planted(bug):
            if preemption.differences(asked, our_answer(asked), before):
                return
    pytest.fail(f"{bug.name}: no case differs")


@cache
def unchanged(seed: int) -> dict[str, object]:
    """What the test above holds to be kube-scheduler's answer."""
    return our_answer(configured(seed))


def test_the_cases_of_ci_reach_everything():
    messages, kinds, changed, huge = 0, set(), 0, 0
    for seed in range(CI_CASES):
        case, plain = configured(seed), configured(seed)
        del plain["config"]
        answer = our_answer(case)
        assert "error" not in answer, f"seed {seed}: {answer['error']}"
        messages += ENFORCED in json.dumps(answer)
        changed += answer != our_answer(plain)
        nodes = [node for pod in answer["pods"] for node in pod["nodes"].values()]
        huge += any(node.get("total", 0) > 1 << 15 for node in nodes)
        for profile in case["config"]["profiles"]:
            for one in profile["pluginConfig"]:
                kinds.add(one["args"].get("scoringStrategy", {}).get("type"))
    assert messages >= 10
    assert huge >= 10, "totals beyond 16 bits"
    assert kinds - {None} == {"LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"}
    assert changed > CI_CASES // 2, "most configurations should change something"


def test_configurations_have_every_change_and_every_number_of_profiles():
    profiles = [configured(seed)["config"]["profiles"] for seed in range(CI_CASES)]
    assert {len(one) for one in profiles} == set(range(1, len(NAMES) + 1))
    assert len(set(CHANGES)) == 10
    points = {point for found in profiles for one in found for point in one["plugins"]}
    assert points >= {"multiPoint", "preFilter", "filter", "score"}


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_change_is_seen(bug: Bug):
    for seed in (*bug.first, *range(PLANTED_CASES)):
        expected = unchanged(seed)
        with planted(bug):
            changed = our_answer(configured(seed))
        if differences(changed, expected):
            break
    else:
        pytest.fail(f"{bug.name}: none of {PLANTED_CASES} cases differs")
