"""Whole runs of the mesh, batched and not, on one shard and on three: kube-scheduler 1.35.4's own
code allows every decision in their journals, given what the shard knew.
"""

import asyncio
import json
from dataclasses import replace

import pytest

from muster.cli.main import main
from services.queueing.core.waiting.messages import fit_error
from shared.model.release import V1_35, V1_36, V1_37
from tests.parity.comparison.compare import PASSED_OVER
from tests.parity.comparison.mesh_runs import (
    Decision,
    World,
    decisions,
    heavy_world,
    hosts_world,
    packed_world,
    sampled_world,
    spread_world,
    with_images,
    world,
)
from tests.parity.comparison.volume_runs import (
    ChoosingWorld,
    choosing_world,
    used_world,
    volume_world,
)
from tests.parity.oracle.client import Oracle, require_oracle
from tests.parity.planted import configs, images, volumes
from tests.parity.planted.patching import planted
from tests.parity.planted.plugins import BUGS
from tests.simulation.planted import ROOT, Bug

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("parity-sequences")]

SEEDS = (1, 2, 3)
TIME_LIMIT_S, SHORT_S = 60, 4
"""A run whose own check fails would wait for a change; a part of its decisions is enough."""


def played(
    given: World,
    folder,
    shards: int = 1,
    batch: str = "true",
    limit_s: int = TIME_LIMIT_S,
    version: str = V1_35,
) -> list[Decision]:
    """Return the decisions of a run on this world, whatever the run's own check says."""
    manifests = {"apiVersion": "v1", "kind": "List", "items": given.objects()}
    (folder / "world.json").write_text(json.dumps(manifests))
    words = ["run", str(folder / "world.json"), "--run-dir", str(folder / "run"), "-o", "json"]
    words += ["--time-limit", str(limit_s), "--placements", str(shards)]
    words += ["--compatibility-version", version]
    if given.config is not None:
        (folder / "config.json").write_text(json.dumps(given.config))
        words += ["--config", str(folder / "config.json")]
    main([*words, "--set", f"placement.batch={batch}"])
    return asyncio.run(decisions(folder / "run"))


def wrong(given: World, made: list[Decision], oracle: Oracle) -> list[str]:
    """Return the decisions that kube-scheduler would not have made, or not with that score or
    message.
    """
    answers = oracle.ask_all([given.case(one) for one in made])
    found = [_wrong(one, answer["pods"][0]) for one, answer in zip(made, answers, strict=True)]
    return [text for text in found if text]


def _wrong(one: Decision, answer) -> str:
    if one.next != answer.get("sampling", {}).get("next", 0):
        return f"{one.pod}: the next search begins at {one.next} / {answer['sampling']}"
    if not one.node:
        said = fit_error(one.reasons, len(one.nodes))
        return "" if said == answer["fitError"] else f"{one.pod}: {said} / {answer['fitError']}"
    if one.node not in answer["best"]:
        return f"{one.pod}: {one.node} is none of {answer['best']}"
    node = answer["nodes"][one.node]
    assert not any(node["scores"].get(plugin, 0) for plugin in PASSED_OVER)
    return "" if node["total"] == one.total else f"{one.pod}: {one.total} / {node}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("batch", ["true", "false"])
@pytest.mark.parametrize("shards", [1, 3])
def test_every_decision_is_one_of_kube_schedulers(seed, shards, batch, oracle, tmp_path, capsys):
    given = world(seed)
    made = played(given, tmp_path, shards, batch)
    assert {one.pod for one in made} == set(given.pods)
    assert any(one.together > 1 for one in made) == (batch == "true")
    assert wrong(given, made, oracle) == []


@pytest.mark.parametrize("seed", [*SEEDS, 4])
@pytest.mark.parametrize("batch", ["true", "false"])
def test_rules_between_pods_are_kept_as_kube_scheduler_keeps_them(
    seed, batch, oracle, tmp_path, capsys
):
    given = world(seed, between=True)
    made = played(given, tmp_path, 1, batch)
    assert {one.pod for one in made} == set(given.pods)
    assert wrong(given, made, oracle) == []


@pytest.mark.parametrize("seed", [1, 8, 9])
@pytest.mark.parametrize("batch", ["true", "false"])
@pytest.mark.parametrize("shards", [1, 3])
def test_rules_by_host_are_kept_by_several_shards(seed, shards, batch, oracle, tmp_path, capsys):
    given = hosts_world(seed)
    made = played(given, tmp_path, shards, batch)
    assert {one.pod for one in made} == set(given.pods)
    assert any("anti-affinity" in reason for one in made for reason, _nodes in one.reasons)
    assert wrong(given, made, oracle) == []


HOST_BUGS = (
    Bug(
        "rules-are-dropped",
        "services.placement.core.books.charges",
        ("Signature(state.table, sig, spec, ", "Signature(state.table, sig, spec.anonymous(), "),
    ),
    Bug(
        "identities-not-published",
        "services.ingest.core.pods.identity",
        ("    if spec.has_rules:\n        places =", "    if not spec:\n        places ="),
    ),
)


@pytest.mark.parametrize("bug", HOST_BUGS, ids=lambda bug: bug.name)
def test_a_change_in_rules_by_host_is_noticed(bug, oracle, tmp_path, capsys):
    given = hosts_world(1)
    with planted(bug):
        made = played(given, tmp_path, 3, limit_s=SHORT_S)
    assert wrong(given, made, oracle)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("batch", ["true", "false"])
@pytest.mark.parametrize("shards", [1, 3])
def test_images_count_as_those_of_the_whole_cluster(seed, shards, batch, oracle, tmp_path, capsys):
    given = with_images(world(seed), seed)
    made = played(given, tmp_path, shards, batch)
    assert {one.pod for one in made} == set(given.pods)
    assert wrong(given, made, oracle) == []


IMAGE_BUGS = (
    Bug(
        "images-of-the-shard",
        "shared.scheduling.table.images",
        ("if self.spread is None:", "if True:"),
    ),
    Bug(
        "new-images-not-counted",
        "services.ingest.core.images",
        (
            "        state.images[one] = ImageRecord(key, 0, _holders(state, key))",
            "        state.images[one] = ImageRecord(key, 0, 0)",
        ),
    ),
    Bug(
        "nodes-not-counted",
        "services.ingest.core.images",
        ("ImagesCounted(len(state.nodes), ", "ImagesCounted(0, "),
    ),
)


@pytest.mark.parametrize("bug", IMAGE_BUGS, ids=lambda bug: bug.name)
def test_a_change_in_how_images_are_counted_is_noticed(bug, oracle, tmp_path, capsys):
    given = with_images(world(2), 2)
    with planted(bug):
        made = played(given, tmp_path, 3, limit_s=SHORT_S)
    assert wrong(given, made, oracle)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("batch", ["true", "false"])
def test_pods_are_spread_by_their_services_and_controllers(seed, batch, oracle, tmp_path, capsys):
    given = spread_world(seed)
    made = played(given, tmp_path, 1, batch)
    assert {one.pod for one in made} == set(given.pods)
    assert wrong(given, made, oracle) == []
    unspread = [one for one in made if one.node]
    assert wrong(replace(given, selecting=[]), unspread, oracle), "it does not matter here"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("batch", ["true", "false"])
@pytest.mark.parametrize("shards", [1, 3])
def test_pods_go_where_their_volumes_are(seed, shards, batch, oracle, tmp_path, capsys):
    given = volume_world(seed, alone=shards == 1)
    made = played(given, tmp_path, shards, batch)
    assert {one.pod for one in made} == set(given.pods)
    assert wrong(given, made, oracle) == []


@pytest.mark.parametrize("seed", [*SEEDS, 4])
@pytest.mark.parametrize("batch", ["true", "false"])
@pytest.mark.parametrize("shards", [1, 3])
def test_volumes_are_chosen_as_kube_scheduler_chooses_them(
    seed, shards, batch, oracle, tmp_path, capsys
):
    given = choosing_world(seed)
    made = played(given, tmp_path, shards, batch)
    assert {one.pod for one in made} == set(given.pods)
    assert any(one.held for one in made), "no decision had reserved volumes"
    assert wrong(given, made, oracle) == []
    assert misled(given, made) == []


@pytest.mark.parametrize("of", [world, volume_world, choosing_world], ids=lambda of: of.__name__)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("version", [V1_36, V1_37])
def test_every_decision_is_one_of_the_kube_scheduler_of_a_release(
    version, seed, of, tmp_path, capsys
):
    given = of(seed)
    made = played(given, tmp_path, version=version)
    require_oracle(version)
    with Oracle(version) as oracle:
        assert wrong(given, made, oracle) == []


def misled(given: ChoosingWorld, made: list[Decision]) -> list[str]:
    """Return the pods that got another volume than the smallest sufficient one."""
    chose = [one for one in made if one.chosen]
    return [one.pod for one in chose if one.chosen[0].volume != given.right_choice(one)]


CHOICE_BUGS = (
    Bug(
        "largest-volume-first",
        "shared.scheduling.volumes.storage",
        ("(one.capacity_bytes, one.name)", "(-one.capacity_bytes, one.name)"),
        first=(1,),
    ),
)


@pytest.mark.parametrize("bug", CHOICE_BUGS, ids=lambda bug: bug.name)
def test_a_change_in_volume_choices_is_noticed(bug, oracle, tmp_path, capsys):
    given = choosing_world(bug.first[0])
    with planted(bug):
        made = played(given, tmp_path, limit_s=SHORT_S)
    assert wrong(given, made, oracle) or misled(given, made)


VOLUME_BUGS = (
    Bug(
        "shards-without-storage",
        "services.placement.core.books.facts",
        ("        state.storage.put(one)\n", "        continue\n"),
    ),
    Bug(
        "claims-without-namespace",
        "services.ingest.core.pods.identity",
        (" or spec.volumes or spec.claims\n", " or spec.claims\n"),
    ),
)


@pytest.mark.parametrize("bug", VOLUME_BUGS, ids=lambda bug: bug.name)
def test_a_change_in_volume_events_is_noticed(bug, oracle, tmp_path, capsys):
    given = volume_world(1)
    with planted(bug):
        made = played(given, tmp_path, limit_s=SHORT_S)
    assert wrong(given, made, oracle)


RULE = "shared.model.pod_rules.default_spread"
SPREAD_BUGS = (
    Bug("services-forgotten", RULE, ("wanted.update(selector)", "pass")),
    Bug("controller-forgotten", RULE, ("every.update(requirements)", "pass")),
)


@pytest.mark.parametrize("bug", SPREAD_BUGS, ids=lambda bug: bug.name)
def test_a_change_in_default_spread_is_noticed(bug, oracle, tmp_path, capsys):
    given = spread_world(5)
    with planted(bug):
        made = played(given, tmp_path, limit_s=SHORT_S)
    assert wrong(given, made, oracle)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("batch", ["true", "false"])
@pytest.mark.parametrize(("nodes", "scored", "shards"), [(115, True, 1), (40, False, 3)])
def test_searches_end_where_kube_schedulers_end(
    seed, batch, nodes, scored, shards, oracle, tmp_path, capsys
):
    given = sampled_world(seed, nodes, percent=0 if seed == 1 else 7, scored=scored)
    made = played(given, tmp_path, shards, batch)
    assert {one.pod for one in made} == set(given.pods)
    assert all(one.together == 1 for one in made)
    assert len({one.start for one in made}) > 3
    assert wrong(given, made, oracle) == []


def test_a_search_start_that_never_moves_is_noticed(oracle, tmp_path, capsys):
    given = sampled_world(1, 20, percent=7, scored=False)
    bug = Bug(
        "search-start-not-advanced",
        "services.placement.core.placing.sampling",
        ("+ examined) %", "+ 0) %"),
    )
    with planted(bug):
        made = played(given, tmp_path)
    assert wrong(given, made, oracle)


def _bug(name: str, module: str, old: str, new: str) -> Bug:
    return Bug(name, f"shared.scheduling.plugins.{module}", (old, new))


# What a run decides with: the forms over arrays, for a batch the one over numbers as well.
OF_RUNS = (
    _bug("least-allocated-of-memory", "node_resources_fit", "score >>= 1", "score >>= 2"),
    _bug("balance-of-cpu", "balanced_allocation", "score -= share[1]", "score -= 0.0"),
    # Whole devices; kube-scheduler knows no shares and no models.
    _bug("one-device-more", "gpu_devices", "cols[column] < amount", "cols[column] < amount - 1.0"),
)
SEEN = (
    *("selector-forgotten", "weight-of-the-last-term", "first-port-only"),
    *("no-execute-forgotten", "empty-key-tolerates-nothing", "cordons-for-all"),
)
PLANTED = (*OF_RUNS, *(bug for bug in BUGS if bug.name in SEEN))


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_changed_plugin_is_noticed(bug, oracle, tmp_path, capsys):
    given = world(5, each=True)
    with planted(bug):
        made = played(given, tmp_path, limit_s=SHORT_S)
    assert wrong(given, made, oracle)


# Worlds in which the other plugins matter, and what is changed in them.
ELSEWHERE = {
    "skew-without-itself": lambda: world(2, between=True),
    "weights-are-one": lambda: world(2, between=True),
    "images-not-spread": lambda: with_images(world(2), 2),
    "weights-forgotten": lambda: packed_world(5),
    "one-more-volume": lambda: volume_world(1),
    "volume-zones-inverted": lambda: volume_world(2),
    "any-size": lambda: choosing_world(1),
    "in-use-is-free": lambda: used_world(1),
}
OTHER_BUGS = (
    *(BUGS + images.BUGS + volumes.BUGS + configs.BUGS),
    _bug("volume-zones-inverted", "volumes.volume_zone", "refused |= ~there", "refused |= there"),
    _bug(
        "in-use-is-free", "volumes.volume_restrictions", "(in_use > 0), True", "(in_use > 9), True"
    ),
)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_changed_plugin_is_noticed_where_it_matters(name, oracle, tmp_path, capsys):
    given = ELSEWHERE[name]()
    (bug,) = (one for one in OTHER_BUGS if one.name == name)
    with planted(bug):
        made = played(given, tmp_path, limit_s=SHORT_S)
    assert wrong(given, made, oracle)


def test_a_profile_that_fills_nodes_gives_kube_schedulers_choice(oracle, tmp_path, capsys):
    given = packed_world(5)
    made = played(given, tmp_path)
    assert {one.pod for one in made} == set(given.pods)
    assert wrong(given, made, oracle) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("batch", ["true", "false"])
@pytest.mark.parametrize("shards", [1, 3])
def test_large_and_small_weights_give_kube_schedulers_choice(
    seed, shards, batch, oracle, tmp_path, capsys
):
    given = heavy_world(seed, between=shards == 1)
    made = played(given, tmp_path, shards, batch)
    assert {one.pod for one in made} == set(given.pods)
    assert min(one.total for one in made if one.node) < 1_000
    assert max(one.total for one in made) > 1 << 32
    assert wrong(given, made, oracle) == []
    assert main(["replay", str(tmp_path / "run")]) == 0


def test_every_plugin_that_a_run_can_reach_has_a_change():
    paths = (ROOT / "shared" / "scheduling" / "plugins").rglob("[a-z]*.py")
    # What kube-scheduler lacks cannot be compared with it, and says so.
    modules = {path.stem for path in paths if "kube-scheduler lacks" not in path.read_text()}
    bugs = [*PLANTED, *(bug for bug in OTHER_BUGS if bug.name in ELSEWHERE)]
    # No pod here names a node or has claims (other suites have changes for that), and 1.35 has no
    # declared features.
    left_out = {"node_name", "narrowed_nodes", "node_declared_features", "dynamic_resources"}
    assert modules - left_out == {bug.module.rpartition(".")[2] for bug in bugs}
