"""--plugin: accepted files, and how runs, replays and explanations use them."""

import json
from pathlib import Path

import pytest
import yaml

from muster.cli.errors import UsageFault
from muster.cli.main import main
from muster.cli.profiles import read_profiles, with_profiles
from muster.user_plugins.load import load
from shared.model.cluster_event_kinds import KINDS
from shared.scheduling.api.custom.plugin import PLUGINS
from tests.support.builders import make_node, make_pod
from tests.unit.worlds.manifests import priority_class

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs" / "reference" / "plugins.md"
EXAMPLE = ROOT / "examples" / "plugins"
PLUGIN, CONFIG = EXAMPLE / "off_spot.py", EXAMPLE / "scheduler-config.yaml"
TEAMS, TEAMS_CONFIG = EXAMPLE / "teams.py", EXAMPLE / "teams-config.yaml"
LICENSES, LICENSES_CONFIG = EXAMPLE / "licenses.py", EXAMPLE / "licenses-config.yaml"
LEDGER, LEDGER_CONFIG = EXAMPLE / "ledger.py", EXAMPLE / "ledger-config.yaml"
TENANTS, TENANTS_CONFIG = EXAMPLE / "tenants.py", EXAMPLE / "tenants-config.yaml"
NEAR, NEAR_CONFIG = EXAMPLE / "near.py", EXAMPLE / "near-config.yaml"
AUDITED, AUDITED_CONFIG = EXAMPLE / "audited.py", EXAMPLE / "audited-config.yaml"
PAIRS, PAIRS_CONFIG = EXAMPLE / "pairs.py", EXAMPLE / "pairs-config.yaml"
HEAD = "from muster.plugin import *\nimport numpy as np\nclass One(Plugin):\n"
ACTS = "import time\nfrom muster.plugin import *\nclass One(BindPlugin):\n"
FILTER = " def filter(self, pod, nodes):\n  "


@pytest.fixture(autouse=True)
def _forgotten():
    yield
    PLUGINS.clear()


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import time\n", "line 1: import time is not allowed: a replay would differ"),
        ("import random as numpy\n", "line 1: import random as numpy is not allowed"),
        ("import numpy as n\n", "line 1: import numpy as n is not allowed"),
        ("from os import environ\n", "line 1: import os is not allowed"),
        ("from . import other\n", "line 1: import . is not allowed"),
        (HEAD + FILTER + "return open('x').read()\n", "line 5: open() is not allowed"),
        (HEAD + FILTER + "return np.random.rand(3)\n", "line 5: np.random is not allowed"),
        (HEAD + FILTER + "return np.load('x')\n", "line 5: .load is not allowed"),
        (HEAD + FILTER + "return np.empty(3)\n", "line 5: .empty is not allowed"),
        (HEAD + FILTER + "return hash(pod)\n", "line 5: hash() is not allowed"),
        (HEAD + FILTER + "return [x for x in {1, 2}]\n", "line 5: a loop over a set"),
        (HEAD + FILTER + "eval('1')\n", "line 5: eval is not allowed"),
        (HEAD + FILTER + "license()\n", "line 5: license is not allowed"),
        (HEAD + FILTER + "np.__loader__\n", "line 5: .__loader__ is not allowed"),
        ("read = open\n" + HEAD + FILTER + "pass\n", "line 1: open() is not allowed"),
        (HEAD + FILTER + "return [*map(open, 'x')]\n", "line 5: open() is not allowed"),
        (HEAD + FILTER + "return min(nodes.each(), key=hash)\n", "line 5: hash() is not"),
        (HEAD + FILTER + "return __builtins__\n", "line 5: __builtins__ is not allowed"),
        (HEAD + FILTER + "x = np\n", "line 5: numpy by another name than np.NAME is not allowed"),
        ("import typing\n" + HEAD + FILTER + "typing.sys.modules['time']\n", "line 6: .modules is"),
        ("from typing import sys\n", "line 1: import sys is not allowed"),
        ("from operator import attrgetter\n", "line 1: import attrgetter is not allowed"),
        (HEAD + FILTER + "np.zeros(3).tofile('x')\n", "line 5: .tofile is not allowed"),
        (HEAD + FILTER + "return np.lib.npyio\n", "line 5: .lib is not allowed"),
        ("x = 0\n" + HEAD + FILTER + "global x\n", "line 6: changing a variable outside"),
        ("def f(:\n", "line 1: is not Python"),
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("x = 1\n", "has no class that extends Plugin"),
        (
            HEAD + " pass\n",
            "One: has none of the methods pre_enqueue, queue_sort, pre_filter, filter, filter_node",
        ),
        (
            HEAD + FILTER + "pass\n def filter_node(self, pod, node): pass\n",
            "One: has filter and filter_node; one of them is enough",
        ),
        (
            HEAD + " reads = ('spec.x',)\n" + FILTER + "pass\n",
            "One: reads 'spec.x': must be one of",
        ),
        (HEAD + " reads = ('labels.',)\n" + FILTER + "pass\n", "One: reads 'labels.': must be"),
        (HEAD + " normalize = 'up'\n" + FILTER + "pass\n", "normalize must be HIGHER or LOWER"),
        (
            HEAD + " amounts = ('cpu',)\n def score_node(self, pod, node): pass\n",
            "One: `amounts` needs a `score` method and no `normalize`",
        ),
        (
            HEAD + " def pre_bind(self, pod, node): pass\n",
            "One: extends preBind: the class must extend BindPlugin",
        ),
        (
            HEAD + " def permit(self, pod, node): pass\n",
            "One: extends permit: the class must extend BindPlugin",
        ),
        (
            HEAD + FILTER + "pass\n def unreserve(self): pass\n",
            "One: nothing calls unreserve(); did you mean reserve?",
        ),
        (
            HEAD + " def filtre(self, pod, nodes): pass\n",
            "One: nothing calls filtre(); did you mean filter?",
        ),
        (
            HEAD + FILTER + "pass\n def compute(self): pass\n",
            "One: nothing calls compute(); the name of a helper method begins with _",
        ),
        (
            HEAD + " reads = ('labels.need',)\n" + FILTER + "return pod['labels.ned']\n",
            'line 6: pod["labels.ned"] is not in `reads` of One; did you mean labels.need?',
        ),
        (
            "from muster.plugin import HIGHR\n",
            "line 1: muster.plugin has no HIGHR; did you mean HIGHER?",
        ),
        ("import nunpy as np\n", "line 1: there is no module nunpy; did you mean numpy?"),
        (
            HEAD + " def reserve(self, pod): pass\n",
            "One: reserve() and room() must be defined together",
        ),
        (HEAD + FILTER + "pass\n def room(self, node): pass\n", "One: reserve() and room() must"),
        (ACTS + " def filter(self, pod, nodes): pass\n", "One: has filter: a deciding method"),
        (ACTS + " def bind(self, pod, node): pass\n", "One: bind must be `async def`"),
        (ACTS + " pass\n", "One: has none of the methods"),
        (
            ACTS + " timeout_s = 0\n async def bind(self, pod, node): pass\n",
            "One: timeout_s must be a number of seconds above 0",
        ),
        (
            ACTS + " wakes = ('Node/Grow',)\n async def permit(self, pod, node): pass\n",
            "One: wakes 'Node/Grow': must be one of Pod/Add, Pod/Delete, Pod/Update,",
        ),
        (
            ACTS + " wakes = 'Node/Add'\n async def permit(self, pod, node): pass\n",
            "One: wakes must be a tuple",
        ),
        (
            ACTS + " wakes = ()\n async def pre_bind(self, pod, node): pass\n",
            "One: `wakes` is only valid with permit(): only its rejections wait for events",
        ),
        (
            HEAD + " wakes = ('Node/Add',)\n" + FILTER + "pass\n",
            "One: `wakes` is only valid with permit(); a pod",
        ),
        (
            ACTS + " pass\nclass Two(Plugin): pass\n",
            "line 1: import time is not allowed: a replay would differ",
        ),
        (
            ACTS.replace("time", "re") + " pass\nclass Two(Plugin): pass\n",
            "One: a file has either Plugin or BindPlugin classes: move",
        ),
        (HEAD + " args: int\n" + FILTER + "pass\n", "One: args: must be a dataclass or a Struct"),
        (HEAD + " args: 'Lost'\n" + FILTER + "pass\n", "One: args: name 'Lost' is not defined"),
        (HEAD + " name = 'NodePorts'\n" + FILTER + "pass\n", "is the name of a plugin of kube-sch"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line_and_rule(code, rule, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(code)
    with pytest.raises(UsageFault) as caught:
        load([path])
    assert str(path) in str(caught.value)
    assert rule in str(caught.value)


def test_local_values_and_sorted_sets_are_allowed(tmp_path):
    path = tmp_path / "mine.py"
    body = "SEEN = [] ; SEEN.append(1) ; return np.sort(np.insert(nodes.number('a'), 0, SEEN))"
    kept = "\n  ".join(
        ["found = {1, 2}", "found.add(3)", "names = sorted({'b'})", "next(iter('a'))"]
    )
    path.write_text(
        f"SEEN = [2]\nSEEN.append(3)\n{HEAD}{FILTER}{body}\n def _one(self):\n  {kept}\n"
    )
    load([path])
    assert list(PLUGINS) == ["One"]


def test_two_plugins_of_one_name_are_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN.read_text())
    with pytest.raises(UsageFault, match="a plugin OffSpot is loaded already"):
        load([PLUGIN, path])
    with pytest.raises(UsageFault, match="cannot be read"):
        load([tmp_path / "none.py"])


def test_a_run_with_a_plugin_is_replayed_and_explained_with_it_alone(tmp_path, capsys):
    run, mine = str(tmp_path / "run"), tmp_path / "off_spot.py"
    mine.write_text(PLUGIN.read_text())
    words = ["run", str(EXAMPLE / "world.yaml"), "--config", str(CONFIG), "-o", "json"]
    assert main([*words, "--run-dir", run, "--plugin", str(mine)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["bound"], result["waiting"]) == (4, 1)
    for journals in (["--journal", "placement/0"], ["--processes", "2"]):
        PLUGINS.clear()
        assert main(["replay", run, *journals, "--plugin", str(mine)]) == 0
    capsys.readouterr()
    why = ["why", "pod", "default/ledger-2", "--run-dir", run, "--node", "spot-9"]
    assert main([*why, "--plugin", str(mine)]) == 0
    assert "spot-9: refused by OffSpot: node(s) were spot instances" in capsys.readouterr().out
    PLUGINS.clear()
    mine.write_text(PLUGIN.read_text().replace('"spot")', '"other")'))
    for command in (["replay", run], why):
        assert main(command) == 2
        assert "plugin OffSpot is needed: give its file with --plugin" in capsys.readouterr().err
        assert main([*command, "--plugin", str(mine)]) == 2
        assert "plugin OffSpot is not the one that was used" in capsys.readouterr().err
        PLUGINS.clear()


def _teams_world(path: Path, cpu: str = "600m") -> Path:
    """Write a world with room for one of three pods, one of which names no team; return
    its path.
    """
    items = [make_node("n").capacity(cpu="1", memory="1Gi", pods="9").obj()]
    for name, team, bid in (("low", "a", "-1"), ("high", "b", "8"), ("nobody", "", "9")):
        pod = make_pod(name).labels(team=team).metadata(annotations={"bid": bid})
        items.append(pod.requests(cpu=cpu).obj())
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def test_a_run_with_queue_plugins_explains_gated_pods(tmp_path, capsys):
    run, world = str(tmp_path / "run"), str(_teams_world(tmp_path / "world.json"))
    words = ["run", world, "--config", str(TEAMS_CONFIG), "--plugin", str(TEAMS), "-o", "json"]
    assert main([*words, "--run-dir", run]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["bound"], result["waiting"], result["problems"]) == (1, 2, [])
    assert result["waiting_by_reason"] == {
        "Insufficient cpu": 1,
        "Teams: the pod names no team": 1,
    }
    plugin = ["--plugin", str(TEAMS)]
    for pod, word in (("nobody", "Teams: the pod names no team"), ("high", "bound")):
        assert main(["why", "pod", f"default/{pod}", "--run-dir", run, *plugin]) == 0
        assert word in capsys.readouterr().out
    assert main(["replay", run, *plugin]) == 0
    PLUGINS.clear()
    capsys.readouterr()
    assert main(["replay", run]) == 2
    assert "plugin Teams is needed: give its file with --plugin" in capsys.readouterr().err


def test_a_plugin_that_no_profile_enables_is_refused(capsys):
    words = ["run", str(EXAMPLE / "world.yaml"), "--plugin", str(PLUGIN)]
    assert main(words) == 2
    assert "OffSpot needs a --config with a profile that enables it" in capsys.readouterr().err
    other = str(ROOT / "examples" / "scheduler-config.yaml")
    assert main([*words, "--config", other]) == 2
    assert "enables OffSpot" in capsys.readouterr().err


def test_a_profile_with_an_unknown_plugin_is_refused(capsys):
    assert main(["run", str(EXAMPLE / "world.yaml"), "--config", str(CONFIG)]) == 2
    assert "there is no plugin 'OffSpot'" in capsys.readouterr().err


def test_muster_score_shows_a_plugins_answers(tmp_path, capsys):
    node = {"apiVersion": "v1", "kind": "Node", "status": {"allocatable": {"cpu": 4, "pods": 9}}}
    nodes = [
        {**node, "metadata": {"name": name, "labels": {"rack": rack, "lifecycle": kind}}}
        for name, rack, kind in (("a", "1", "spot"), ("b", "2", "steady"), ("c", "4", "steady"))
    ]
    pod = make_pod("p").labels(tier="critical").obj()
    case = tmp_path / "case.json"
    case.write_text(json.dumps({"objects": nodes, "pods": [pod]}))
    words = ["score", str(case), "--config", str(CONFIG), "--plugin", str(PLUGIN), "-o", "json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)["pods"][0]["nodes"]
    assert found["a"]["reasons"] == ["node(s) were spot instances"]
    assert (found["a"]["plugin"], found["a"]["code"]) == ("OffSpot", "UnschedulableAndUnresolvable")
    assert [found[name]["scores"]["OffSpot"] for name in "bc"] == [250, 500]


def test_a_bind_plugin_runs_before_and_after_each_bind(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, world = str(tmp_path / "run"), str(_teams_world(tmp_path / "world.json", "100m"))
    plugin = ["--plugin", str(LEDGER)]
    words = ["run", world, "--config", str(LEDGER_CONFIG), *plugin, "-o", "json"]
    assert main([*words, "--run-dir", run]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["bound"], result["waiting"], result["problems"]) == (2, 1, [])
    assert result["waiting_by_reason"] == {"nobody pays for the pod": 1}
    lines = [line.split() for line in Path("ledger.txt").read_text().splitlines()]
    assert {line[0] for line in lines} == {"low", "high"}, "nothing about the third pod"
    assert sorted(line for line in lines if line[1] == "wants") == [
        ["high", "wants", "n"],
        ["low", "wants", "n"],
    ]
    # The answers are recorded: a replay calls no plugin.
    PLUGINS.clear()
    assert main(["replay", run]) == 0
    assert len(Path("ledger.txt").read_text().splitlines()) == len(lines)
    capsys.readouterr()
    assert main(["story", "pod/nobody", run]) == 0
    assert ": nobody pays for the pod" in capsys.readouterr().out


def test_pods_that_wait_for_each_other_are_bound_and_replayed_without_the_plugin(tmp_path, capsys):
    run, path = str(tmp_path / "run"), _teams_world(tmp_path / "world.json", "100m")
    world = json.loads(path.read_text())
    for one in world["items"]:
        if one["metadata"]["name"] in ("low", "high"):
            one["metadata"].setdefault("labels", {})["pair"] = "a"
    path.write_text(json.dumps(world))
    words = ["run", str(path), "--config", str(PAIRS_CONFIG), "--plugin", str(PAIRS), "-o", "json"]
    assert main([*words, "--run-dir", run]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["bound"], result["waiting"], result["problems"]) == (3, 0, [])
    PLUGINS.clear()
    assert main(["replay", run]) == 0
    capsys.readouterr()
    assert main(["story", "pod/low", run]) == 0
    assert "ask permit plugins about" in capsys.readouterr().out


def test_pods_that_a_permit_plugin_refuses_wait_for_what_it_names(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run, path = str(tmp_path / "run"), _teams_world(tmp_path / "world.json", "100m")
    Path("audited.txt").write_text("other")
    plugin = ["--plugin", str(AUDITED)]
    words = ["run", str(path), "--config", str(AUDITED_CONFIG), *plugin, "-o", "json"]
    assert main([*words, "--run-dir", run]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["bound"], result["waiting"], result["problems"]) == (0, 3, [])
    assert result["waiting_by_reason"] == {"node(s) had not been audited": 3}
    PLUGINS.clear()
    assert main(["replay", run]) == 0
    capsys.readouterr()
    assert main(["why", "pod", "default/low", run]) == 0
    out = capsys.readouterr().out
    assert "unschedulable" in out
    assert "refused by permit plugin Audited, waits for Node/UpdateLabel in the cluster, or" in out
    assert main(["story", "pod/low", run]) == 0
    assert "1 node(s) had not been audited." in capsys.readouterr().out


def test_a_profile_lists_the_events_that_its_permit_plugins_wait_for():
    load([AUDITED])
    found = with_profiles({}, read_profiles(AUDITED_CONFIG))
    assert found["queueing"]["wakes"] == {"Audited": ("Node/UpdateLabel",)}
    assert found["ingest"]["wakes"] == ("Node/UpdateLabel",)
    load([PAIRS])
    found = with_profiles({}, read_profiles(PAIRS_CONFIG))
    assert found["queueing"]["wakes"] == {"Pairs": tuple(KINDS)}
    load([LEDGER])
    found = with_profiles({}, read_profiles(LEDGER_CONFIG))
    assert "wakes" not in found.get("queueing", {})
    assert "wakes" not in found["ingest"]


@pytest.mark.parametrize(
    ("version", "named", "awaited"),
    [
        ("1.35", ("Node/Add",), ("Node/Add", "Node/UpdateTaint")),
        ("1.36", ("Pod/Delete", "Node/Add"), ("Pod/Delete", "Node/Add", "Node/UpdateTaint")),
        ("1.37", ("Node/Add",), ("Node/Add",)),
        ("1.35", ("Node/UpdateLabel",), ("Node/UpdateLabel",)),
        ("1.35", ("Node/Add", "Node/Update"), ("Node/Add", "Node/Update")),
    ],
)
def test_until_1_37_new_nodes_include_changed_taints(version, named, awaited, monkeypatch):
    load([AUDITED])
    monkeypatch.setattr(PLUGINS["Audited"].kind, "wakes", named)
    options = {"queueing": {"compatibility": version}}
    found = with_profiles(options, read_profiles(AUDITED_CONFIG))
    assert found["queueing"]["wakes"] == {"Audited": awaited}
    assert found["ingest"]["wakes"] == tuple(sorted(awaited))


def test_a_binder_that_would_never_be_asked_is_refused(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(ACTS + " async def bind(self, pod, node): return True\n")
    config = tmp_path / "config.yaml"
    config.write_text(LEDGER_CONFIG.read_text().replace("Ledger", "One"))
    words = ["run", str(EXAMPLE / "world.yaml"), "--config", str(config), "--plugin", str(path)]
    assert main(words) == 2
    rule = "One would never be called: DefaultBinder, before it, binds all pods"
    assert rule in capsys.readouterr().err
    (row,) = (line for line in DOCS.read_text().splitlines() if line.startswith("`bind: {"))
    settings = yaml.safe_load(config.read_text())
    plugins = yaml.safe_load(row.strip("`.").replace("Mine", "One"))
    settings["profiles"][0]["plugins"] = plugins
    config.write_text(yaml.safe_dump(settings))
    assert main([*words, "--run-dir", str(tmp_path / "run")]) == 0


def test_a_run_with_a_plugin_that_reserves_says_what_is_used_up_and_is_replayed(tmp_path, capsys):
    run, path = str(tmp_path / "run"), _teams_world(tmp_path / "world.json", "100m")
    world = json.loads(path.read_text())
    for one in world["items"]:
        labels = one["metadata"].setdefault("labels", {})
        labels["licenses"] = {"n": "3", "nobody": ""}.get(one["metadata"]["name"], "2")
    path.write_text(json.dumps(world))
    plugin = ["--plugin", str(LICENSES)]
    words = ["run", str(path), "--config", str(LICENSES_CONFIG), *plugin, "-o", "json"]
    assert main([*words, "--run-dir", run]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["bound"], result["waiting"], result["problems"]) == (2, 1, [])
    assert result["waiting_by_reason"] == {"node(s) had too few licenses left": 1}
    assert main(["replay", run, *plugin]) == 0
    PLUGINS.clear()
    assert main(["replay", run]) == 2
    assert "plugin Licenses is needed: give its file with --plugin" in capsys.readouterr().err


def _tenants_world(path: Path) -> Path:
    """Write a world: two nodes with room for one pod each, and later pods of tenants a and c with
    higher priority; return its path.
    """
    world = json.loads(_teams_world(path).read_text())
    node, pods = world["items"][0], world["items"][1:3]
    world["items"] = [{**node, "metadata": {"name": name}} for name in ("n", "m")]
    for number, (name, tenant) in enumerate([("old", "a"), ("b", "b"), ("new", "a"), ("c", "c")]):
        metadata = {"name": name, "labels": {"tenant": tenant}}
        metadata["annotations"] = {"muster.io/arrives-after": "0s" if number < 2 else "3s"}
        priority = {} if number < 2 else {"priorityClassName": "high"}
        world["items"].append({**pods[0], "metadata": metadata})
        world["items"][-1]["spec"] = {**pods[0]["spec"], **priority}
    world["items"].append(priority_class("high", 100))
    path.write_text(json.dumps(world))
    return path


def test_a_post_filter_plugin_chooses_victims_and_is_replayed(tmp_path, capsys):
    run, world = str(tmp_path / "run"), str(_tenants_world(tmp_path / "world.json"))
    plugin = ["--plugin", str(TENANTS)]
    words = ["run", world, "--config", str(TENANTS_CONFIG), *plugin, "-o", "json"]
    assert main([*words, "--run-dir", run]) == 0
    result = json.loads(capsys.readouterr().out)
    print(result)
    assert (result["waiting"], result["problems"]) == (1, [])
    assert result["waiting_by_reason"] == {"Insufficient cpu": 1}
    for pod, word in (("c", "no pods of the same tenant can make room"), ("new", "bound")):
        assert main(["why", "pod", f"default/{pod}", "--run-dir", run, *plugin]) == 0
        assert word in capsys.readouterr().out
    assert main(["replay", run, *plugin]) == 0
    PLUGINS.clear()
    capsys.readouterr()
    assert main(["replay", run]) == 2
    assert "plugin Tenants is needed: give its file with --plugin" in capsys.readouterr().err


def _near_world(path: Path) -> Path:
    """Write a world: nodes in three racks, the first with room for one pod, and pods of two
    profiles; return its path.
    """
    world = json.loads(_teams_world(path, "100m").read_text())
    node, pod = world["items"][0], world["items"][1]
    world["items"] = []
    for name, rack, pods in (("a", "1", "1"), ("b", "5", "9"), ("c", "9", "9")):
        metadata = {"name": name, "labels": {"rack": rack}}
        status = {"allocatable": {**node["status"]["allocatable"], "pods": pods}}
        world["items"].append({**node, "metadata": metadata, "status": status})
    for name, rack in (("default-0", "5"), ("default-1", "9"), ("picky-0", ""), ("picky-1", "")):
        spec = {**pod["spec"], "schedulerName": f"{name.partition('-')[0]}-scheduler"}
        spec |= {"nodeSelector": {"rack": rack}} if rack else {}
        world["items"].append({**pod, "metadata": {"name": name}, "spec": spec})
    path.write_text(json.dumps(world))
    return path


def test_each_profile_has_a_plugin_with_arguments_of_its_own_and_replays_have_them(
    tmp_path, capsys
):
    run, world = str(tmp_path / "run"), str(_near_world(tmp_path / "world.json"))
    plugin = ["--plugin", str(NEAR)]
    words = ["run", world, "--config", str(NEAR_CONFIG), *plugin, "-o", "json"]
    assert main([*words, "--run-dir", run]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["bound"], result["waiting"], result["problems"]) == (2, 2, [])
    PLUGINS.clear()
    assert main(["replay", run, *plugin]) == 0
    capsys.readouterr()
    for name, refused in (("default-1", ["c"]), ("picky-1", ["b", "c"])):
        seen = []
        for node in "abc":
            why = ["why", "pod", f"default/{name}", "--run-dir", run, "--node", node]
            assert main([*why, *plugin]) == 0
            if f"{node}: refused by Near: node(s) were too far" in capsys.readouterr().out:
                seen.append(node)
        assert seen == refused


FIRST = "profiles[0].pluginConfig"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], f"{FIRST}: Near: Object missing required field `label`"),
        ([{"name": "Near"}], f"{FIRST}[0].args: Near: Object missing required field `label`"),
        (
            [{"name": "Near", "args": {"label": "a"}}, {"name": "Asks", "args": {"x": 1}}],
            f"{FIRST}[1].args: Asks: KeyError: 'y'",
        ),
        ([{"name": "Near", "args": {"label": 7}}], f"{FIRST}[0].args.label: Near: Expected `str`"),
        (
            [{"name": "Near", "args": {"label": "a", "most": 7}}],
            f"{FIRST}[0].args.most: Near: is an unknown field",
        ),
        (
            [{"name": "Near", "args": {"label": "a"}}, {"name": "Near"}],
            f"{FIRST}[1].name: Near is configured twice",
        ),
        ([{"name": "Far", "args": {"label": "a"}}], f"{FIRST}[0].name: there is no plugin 'Far'"),
    ],
)
def test_arguments_that_a_plugin_does_not_take_are_refused(given, said, tmp_path, capsys):
    config = tmp_path / "config.yaml"
    settings = yaml.safe_load(NEAR_CONFIG.read_text())
    settings["profiles"][0]["pluginConfig"] = given
    config.write_text(yaml.safe_dump(settings))
    asks = tmp_path / "asks.py"
    asks.write_text(
        f"{HEAD}{FILTER}pass\n def __init__(self):\n  self.args['y']\n".replace("One", "Asks")
    )
    words = ["run", str(EXAMPLE / "world.yaml"), "--config", str(config), "--plugin", str(NEAR)]
    assert main([*words, "--plugin", str(asks)]) == 2
    assert f"{config}: {said}" in capsys.readouterr().err
