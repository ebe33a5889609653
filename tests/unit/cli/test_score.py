"""`muster score`: the answers for a case's nodes, as kube-scheduler 1.35 would give them."""

import json

import pytest

from muster.cli.main import main
from muster.explain.scoring import score_case
from shared.kubernetes.objects.default_spread import SPREADING
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.volume_objects import READERS
from shared.scheduling.api.custom.plugin import PLUGINS
from shared.worlds.manifests import API_VERSIONS
from tests.e2e.console import ROOT
from tests.parity.suites.builders import node, pod
from tests.unit.worlds.manifests import priority_class

GIB = "1Gi"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
HIGH = priority_class("high", 1000)
BALANCE = "NodeResourcesBalancedAllocation"
EXAMPLE = ROOT / "examples" / "case.json"


def only(*objects, asked):
    return score_case({"objects": list(objects), "pods": [asked]})["pods"][0]


def named_only(*names):
    """Required affinity of one term that names nodes, each In in a field of its own."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_the_golden_pod_scores_487():
    answer = only(node(), asked=pod(requests={"cpu": "500m", "memory": GIB}))
    assert answer["nodes"]["a"] == {
        "feasible": True,
        "code": "Success",
        "plugin": "",
        "reasons": [],
        "scores": {
            "TaintToleration": 300,
            "NodeResourcesFit": 87,
            "NodeResourcesBalancedAllocation": 100,
            "ImageLocality": 0,
        },
        "total": 487,
    }
    assert answer["best"] == ["a"]
    assert answer["fitError"] == ""


def test_a_pod_that_asks_for_nothing_is_not_scored_by_balance():
    assert only(node(), asked=pod())["nodes"]["a"]["scores"] == {
        "TaintToleration": 300,
        "NodeResourcesFit": 97,
        "ImageLocality": 0,
    }


def test_the_rejecting_plugin_is_shown_with_its_code():
    full = pod("full", requests={"cpu": "4"}, nodeName="a")
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    objects = (node("a"), node("b", taints=[taint]), node("c", cpu="1"), full)
    answer = only(*objects, asked=pod(requests={"cpu": "2"}))
    codes = {name: (one["code"], one["plugin"]) for name, one in answer["nodes"].items()}
    assert codes == {
        "a": ("Unschedulable", "NodeResourcesFit"),
        "b": ("UnschedulableAndUnresolvable", "TaintToleration"),
        "c": ("UnschedulableAndUnresolvable", "NodeResourcesFit"),
    }
    assert answer["fitError"] == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    )
    assert answer["best"] == []


def test_missing_resources_and_devices_are_listed_in_kube_schedulers_order():
    lacking = {"example.com/widget": "1", "nvidia.com/gpu": "1", "ephemeral-storage": "1Gi"}
    asked = pod(requests={"cpu": "8", "memory": "64Gi", **lacking})
    assert only(node(pods="0"), asked=asked)["nodes"]["a"]["reasons"] == [
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient example.com/widget",
        "Insufficient nvidia.com/gpu",
    ]


@pytest.mark.parametrize("count", ["64", "9000000000000000000"])
def test_more_devices_than_any_node_can_have_are_lacking_and_nothing_else(count):
    device = {"nvidia.com/gpu": "63"}
    one = node()
    one["status"]["allocatable"] |= device
    taken = pod("taken", requests={"nvidia.com/gpu": count}, nodeName="a")
    for objects in ([one], [one, taken]):
        answer = only(*objects, asked=pod(requests={"nvidia.com/gpu": count}))
        assert answer["nodes"]["a"]["reasons"] == ["Insufficient nvidia.com/gpu"]
        assert answer["nodes"]["a"]["code"] == "UnschedulableAndUnresolvable"


@pytest.mark.parametrize("value", ["x", "-5", "9223372036854775808", "9" * 5000])
def test_a_bound_that_is_no_number_matches_no_node_and_spoils_no_other_term(value):
    above = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": [value]}]}
    here = {"matchExpressions": [{"key": "size", "operator": "In", "values": ["7"]}]}
    sized = node()
    sized["metadata"]["labels"] = {"size": "7"}
    for terms, best in (([above], []), ([above, here], ["a"])):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        assert only(sized, asked=pod(affinity={"nodeAffinity": required}))["best"] == best


def test_pods_that_have_ended_take_nothing():
    ended = pod("ended", requests={"cpu": "4"}, nodeName="a") | {"status": {"phase": "Succeeded"}}
    assert only(node(), ended, asked=pod(requests={"cpu": "4"}))["best"] == ["a"]


@pytest.mark.parametrize("objects", [[], ["team"]])
def test_a_namespace_has_its_name_as_label_with_an_object_and_without(objects):
    """An API server gives it to every namespace; a file may leave it out."""
    by_name = {"matchLabels": {"kubernetes.io/metadata.name": "team"}}
    term = {"topologyKey": "host", "labelSelector": {}, "namespaceSelector": by_name}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    theirs = pod("theirs", nodeName="a")
    theirs["metadata"]["namespace"] = "team"
    host = node("a")
    host["metadata"].setdefault("labels", {})["host"] = "a"
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"a": "b"}}}
        for name in objects
    ]
    answer = only(host, theirs, *spaces, asked=pod(affinity=away))
    assert answer["nodes"]["a"]["plugin"] == "InterPodAffinity"


def test_nodes_that_no_term_names_are_left_out_by_no_plugin():
    answer = only(node("a"), node("b"), asked=pod(affinity=named_only("a")))
    assert answer["best"] == ["a"]
    assert answer["nodes"]["b"]["plugin"] == ""
    message = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert answer["nodes"]["b"]["reasons"] == [message]


def test_a_term_that_names_two_nodes_at_once_rejects_the_pod_and_counts_no_nodes():
    answer = only(node("a"), node("b"), asked=pod(affinity=named_only("a", "b")))
    rejected = {
        "code": "UnschedulableAndUnresolvable",
        "plugin": "NodeAffinity",
        "reasons": ["pod affinity terms conflict"],
    }
    assert answer["preFilterStatus"] == rejected
    assert answer["fitError"] == "0/2 nodes are available: pod affinity terms conflict."
    for one in answer["nodes"].values():
        assert {key: one[key] for key in rejected} == rejected


def test_a_pod_may_name_a_node_and_have_gates():
    gates = [{"name": "quota"}, {"name": "audit"}]
    asked = pod(nodeName="b", schedulingGates=gates)
    case = {"objects": [node(), node("b")], "pods": [asked, pod("q")]}
    named, other = score_case(case)["pods"]
    assert named["best"] == ["b"]
    assert named["nodes"]["a"] | {"scores": {}} == {
        "feasible": False,
        "code": "UnschedulableAndUnresolvable",
        "plugin": "NodeName",
        "reasons": ["node(s) didn't match the requested node name"],
        "scores": {},
        "total": 0,
    }
    assert named["preEnqueueStatus"] == {
        "code": "UnschedulableAndUnresolvable",
        "plugin": "SchedulingGates",
        "reasons": ["waiting for scheduling gates: [quota audit]"],
    }
    assert other["best"] == ["a", "b"]
    assert "preEnqueueStatus" not in other


def timed(key):
    return pod() | {"metadata": {"name": "p", key: "soon"}}


def storage(kind, version="storage.k8s.io/v1"):
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "s"}}


GPU = "nvidia.com/gpu"
DENSE = node() | {"status": {"allocatable": {"cpu": "4", "pods": "110", GPU: "64"}}}
BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
VERSIONS = {
    **{kind: API_VERSIONS[kind] for kind in (*READERS, *SPREADING)},
    **{kind: API_VERSIONS[kind] for kind in ("Node", "Namespace", "PriorityClass")},
    "PodDisruptionBudget": "policy/v1",
}


@pytest.mark.parametrize("kind", VERSIONS)
@pytest.mark.parametrize("version", ["", "storage.k8s.io/v2"])
def test_objects_of_another_version_are_refused(kind, version):
    with pytest.raises(WorldError) as error:
        score_case({"objects": [storage(kind, version)]})
    assert f"apiVersion: must be {VERSIONS[kind]}" in str(error.value)
    assert "objects[0]" in str(error.value)


def test_what_kubectl_writes_is_taken():
    notes = {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}\n"}}
    there, asked = pod("q", nodeName="a"), pod("p", resourceClaims=[], hostAliases=None)
    asked["spec"]["containers"][0]["resources"]["claims"] = []
    for one in (there, asked):
        one["metadata"] |= notes
    assert only(node(), there, asked=asked)["best"] == ["a"]


def test_a_pod_on_a_node_that_is_not_there_holds_nothing():
    there = pod("q", requests={"cpu": "4"}, nodeName="gone")
    alone = only(node(), asked=pod())
    assert only(node(), there, asked=pod()) == alone


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            {"objects": [{"kind": "Service", "apiVersion": "v1", "spec": {"selector": 1}}]},
            "objects[0]: spec.selector: must be an object, is 1",
        ),
        ({"objects": [{}]}, "objects[0].kind: is required"),
        ({"config": {"profiles": []}}, "config.apiVersion: is required"),
        (
            {"config": {**CONFIG, "profiles": [{"schedulerName": "x"}]}, "pods": [pod()]},
            "Pod default/p: spec.schedulerName: no profile 'default-scheduler': there is x",
        ),
        ({"nodes": []}, "nodes: is an unknown field"),
        ({"pods": [node()]}, "kind: must be Pod"),
        (
            {"objects": [{"kind": "List", "apiVersion": "v1", "items": [node()]}]},
            "objects[0].kind: List is a list; write its objects into objects themselves",
        ),
        ({"pods": [{"metadata": {"name": "p"}, "spec": {}}]}, "pods[0].kind: is required"),
        ({"pods": [{"kind": "Deployment", "apiVersion": "apps/v1"}]}, "pods[0].kind: must be Pod"),
        (
            {"pods": [timed("deletionTimestamp")]},
            "metadata.deletionTimestamp: 'soon' is not a time",
        ),
        ({"objects": [timed("creationTimestamp")]}, "metadata.creationTimestamp: 'soon' is not"),
        ({"pods": [pod() | {"status": {"startTime": "5"}}]}, "status.startTime: '5' is not a time"),
        (
            {"pods": [pod() | {"status": {"startTime": "2026-01-02"}}]},
            "status.startTime: '2026-01-02' is not a time such as 2026-01-02T03:04:05Z",
        ),
        (
            {"objects": [BUDGET | {"status": {"disruptedPods": {"q": "x"}}}]},
            "PodDisruptionBudget default/b: status.disruptedPods.q: 'x' is not a time such as",
        ),
        (
            {
                "objects": [
                    storage("CSINode") | {"metadata": {"name": "s", "deletionTimestamp": ""}}
                ]
            },
            "CSINode s: metadata.deletionTimestamp: '' is not a time such as",
        ),
        ({"objects": [node(), node()]}, "metadata.name: is a duplicate"),
        ({"objects": [pod()], "pods": [pod()]}, "metadata.name: is a duplicate"),
        ({"pods": [pod(), pod()]}, "metadata.name: is a duplicate"),
        (
            {"objects": [DENSE], "pods": [pod(requests={GPU: "64"})]},
            "Pod default/p: spec.containers: more than 63 nvidia.com/gpu for one pod are not",
        ),
        ({"pods": [pod(colour="red")]}, "spec.colour: is an unknown field"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_object_field_and_rule(case, message):
    with pytest.raises(WorldError) as error:
        score_case(case)
    assert message in str(error.value)


def test_the_command_prints_json_for_programs_and_a_table_for_people(tmp_path, capsys):
    file = tmp_path / "case.json"
    case = {"objects": [node(), node("b", cpu="0")], "pods": [pod(requests={"cpu": "1"})]}
    file.write_text(json.dumps(case))
    assert main(["score", str(file), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {**score_case(case), "pluginFailures": []}
    assert main(["score", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "NodeResourcesFit: Insufficient cpu" in shown
    assert "NodeResourcesBalancedAllocation 8" in shown


def test_profiles_come_from_a_file_or_from_the_case(tmp_path, capsys):
    shelf = node("b", cpu="8")
    most = {"scoringStrategy": {"type": "MostAllocated"}}
    config = CONFIG | {
        "profiles": [
            {
                "plugins": {"multiPoint": {"disabled": [{"name": BALANCE}]}},
                "pluginConfig": [{"name": "NodeResourcesFit", "args": most}],
            }
        ]
    }
    case = {"objects": [node("a"), shelf], "pods": [pod(requests={"cpu": "1"})]}
    assert score_case(case)["pods"][0]["best"] == ["b"]
    assert score_case(case | {"config": config})["pods"][0]["best"] == ["a"]
    files = tmp_path / "case.json", tmp_path / "config.yaml", tmp_path / "both.json"
    for file, value in zip(files, (case, config, case | {"config": config}), strict=True):
        file.write_text(json.dumps(value))
    words = ["--config", str(files[1]), "--output", "json"]
    assert main(["score", str(files[0]), *words]) == 0
    assert json.loads(capsys.readouterr().out)["pods"][0]["best"] == ["a"]
    assert main(["score", str(files[2]), *words]) == 2
    assert (
        "both.json: config: is given with --config already: drop one of the two"
        in capsys.readouterr().err
    )


def test_a_profile_without_preemption_makes_no_room():
    low = pod("low", requests={"cpu": "3"}, nodeName="a")
    urgent = pod(requests={"cpu": "2"}, priorityClassName="high")
    case = {"objects": [node(), HIGH, low], "pods": [urgent], "preempt": True}
    assert score_case(case)["pods"][0]["preemption"]["best"] == "a"
    off = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
    config = CONFIG | {"profiles": [{"plugins": off}]}
    found = score_case(case | {"config": config})["pods"][0]["preemption"]
    message = "no new claims to deallocate"
    assert found == {"candidates": {}, "best": "", "message": message, "evicted": []}
    config = CONFIG | {"profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}]}
    assert score_case(case | {"config": config})["pods"][0]["preemption"] == found | {"message": ""}


def test_the_example_shows_scores_a_refusal_and_a_preemption(capsys):
    assert main(["score", str(EXAMPLE)]) == 0
    shown = capsys.readouterr().out
    assert "TaintToleration: node(s) had untolerated taint(s)" in shown
    assert "NodeResourcesFit: Insufficient cpu" in shown
    assert "NodeResourcesBalancedAllocation 100" in shown
    assert "preemption would end shop/batch on large" in shown


def test_victims_of_preemption_are_printed(tmp_path, capsys):
    low = pod("low", requests={"cpu": "3"}, nodeName="a")
    urgent = pod(requests={"cpu": "2"}, priorityClassName="high")
    file = tmp_path / "case.json"
    file.write_text(json.dumps({"objects": [node(), HIGH, low], "pods": [urgent], "preempt": True}))
    assert main(["score", str(file)]) == 0
    assert "preemption would end default/low on a\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "cannot be decoded"), ("[]", "must be an object"), (None, "cannot be read")],
)
def test_a_file_that_is_no_case_ends_with_one_line_and_code_2(text, message, tmp_path, capsys):
    file = tmp_path / "case.json"
    if text is not None:
        file.write_text(text)
    assert main(["score", str(file)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert "case.json" in err


@pytest.mark.parametrize(
    ("asked", "there", "before", "since"),
    [
        ({"cpu": "500m", "memory": GIB}, None, 100, 75),
        ({"cpu": "2000m", "memory": GIB}, None, 81, 65),
        ({"cpu": "100m", "memory": "3Gi"}, {"cpu": "2000m", "memory": GIB}, 98, 83),
    ],
)
def test_the_balance_is_scored_as_a_release_does_it(asked, there, before, since, tmp_path, capsys):
    """Values of kube-scheduler 1.35 and 1.36 on a node of 4 cores and 8 GiB."""
    others = [] if there is None else [pod("there", requests=there, nodeName="a")]
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"objects": [node(), *others], "pods": [pod(requests=asked)]}))
    for version, expected in (("1.35", before), ("1.36", since)):
        words = ["score", str(path), "--compatibility-version", version, "-o", "json"]
        assert main(words) == 0
        found = json.loads(capsys.readouterr().out)["pods"][0]["nodes"]["a"]
        assert found["scores"][BALANCE] == expected
    assert main(["score", str(path), "--compatibility-version", "1.30"]) == 2
    assert "--compatibility-version 1.30: must be one of 1.35" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mounted", "own", "before", "since"),
    [
        ("v:1", "other", 0, 48),
        ("v:1", "v:1", 48, 100),
        ("v", "v:1", 48, 48),
        ("w:1", "v:1", 48, 100),
    ],
)
def test_images_that_are_mounted_count_since_1_36(mounted, own, before, since, tmp_path, capsys):
    """500 MiB on the only node, of at most 1000 for the one container."""
    sizes = (("v:1", 500), ("w:1", 5000))
    images = [{"names": [name], "sizeBytes": size << 20} for name, size in sizes]
    mounts = [{"name": "v", "image": {"reference": mounted}}, {"name": "e", "emptyDir": {}}]
    asked = pod(volumes=mounts)
    asked["spec"]["containers"][0]["image"] = own
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"objects": [node(images=images)], "pods": [asked]}))
    for version, expected in (("1.35", before), ("1.36", since)):
        words = ["score", str(path), "--compatibility-version", version, "-o", "json"]
        assert main(words) == 0
        found = json.loads(capsys.readouterr().out)["pods"][0]["nodes"]["a"]
        assert found["scores"]["ImageLocality"] == expected


PLUGIN = """
from muster.plugin import Plugin
class Mine(Plugin):
    def __init__(self):
        self.asked = []
    def score_node(self, pod, node):
        {}
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return list(set('abcdefgh')).index('a')", "a plugin probably follows the order of a set"),
        (
            "self.asked.append(1); return len(self.asked)",
            "--plugin Mine: gave two answers to one question",
        ),
        ("return 3 if node.name in {'a', 'b'} else 1", ""),
    ],
)
def test_plugins_whose_answers_a_replay_could_not_repeat_are_found(body, said, tmp_path, capfd):
    path, case = tmp_path / "mine.py", tmp_path / "case.json"
    path.write_text(PLUGIN.format(body))
    config = CONFIG | {"profiles": [{"plugins": {"score": {"enabled": [{"name": "Mine"}]}}}]}
    case.write_text(json.dumps({"objects": [node()], "pods": [pod()], "config": config}))
    code = main(["score", str(case), "--plugin", str(path), "--check-plugin", "-o", "json"])
    out, err = capfd.readouterr()
    assert (code, said in err, bool(out)) == ((2, True, False) if said else (0, True, True)), err
    PLUGINS.clear()


def test_checking_no_plugin_is_an_error(tmp_path, capfd):
    assert main(["score", str(EXAMPLE), "--check-plugin"]) == 2
    assert "give the plugins with --plugin FILE.py" in capfd.readouterr().err


@pytest.fixture
def shop(tmp_path):
    """Manifests: pods of one name in two namespaces, one of them on a node that it fills. The other
    node is larger.
    """
    there = {**pod("web", requests={"cpu": "4"}, nodeName="a"), "apiVersion": "v1"}
    waits = {**pod("web", requests={"cpu": "1"}), "apiVersion": "v1"}
    waits["metadata"] = {**waits["metadata"], "namespace": "shop"}
    other = {**pod("other"), "apiVersion": "v1"}
    nodes = [{**node(name, cpu=cpu), "apiVersion": "v1"} for name, cpu in (("a", "4"), ("b", "8"))]
    objects = [*nodes, there, waits, other]
    path = tmp_path / "shop.json"
    path.write_text("".join(map(json.dumps, objects)))
    return str(path)


def asked_in(capsys):
    return [
        (f"{one['namespace']}/{one['name']}", one["best"])
        for one in json.loads(capsys.readouterr().out)["pods"]
    ]


@pytest.mark.parametrize(
    "words", [["pod/shop/web"], ["shop/web"], ["web", "-n", "shop"], ["pod/web", "-n", "shop"]]
)
def test_one_pod_is_asked_about_by_the_names_that_why_takes(words, shop, capsys):
    assert main(["score", shop, "-o", "json", "--pod", *words]) == 0
    assert asked_in(capsys) == [("shop/web", ["b"])]


def test_a_pod_that_has_a_node_is_asked_about_as_if_it_had_none(shop, capsys):
    assert main(["score", shop, "-o", "json"]) == 0
    assert asked_in(capsys) == [("shop/web", ["b"]), ("default/other", ["b"])]
    assert main(["score", shop, "-o", "json", "--pod", "default/web"]) == 0
    assert asked_in(capsys) == [("default/web", ["b"])]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pod", "web"], "--pod web: may be default/web, shop/web: name one, or its -n NAMES"),
        (["--pod", "shop/db"], "--pod shop/db: there is no such pod"),
        (["--pod", "gang/web"], "--pod gang/web: must be [pod/][NAMESPACE/]NAME"),
        (["-n", "shop"], "--namespace: requires --pod"),
        (["--kubeconfig", "k"], "score: name a CASE or a --kubeconfig"),
    ],
)
def test_a_question_that_names_no_single_pod_is_refused(words, said, shop, capsys):
    assert main(["score", shop, *words]) == 2
    assert said in capsys.readouterr().err


def test_a_question_needs_a_case_or_a_cluster(capsys):
    assert main(["score"]) == 2
    assert "score: name a CASE or a --kubeconfig" in capsys.readouterr().err
