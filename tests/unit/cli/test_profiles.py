"""--config: profiles in the services' options, and in the check of waiting pods."""

import json
from pathlib import Path

import msgspec
import pytest

from muster.checker.brute_force import Final, Waiting, confirm
from muster.checker.filters.default_filters import (
    as_by_default,
    filters_by_default,
    has_own_filters,
)
from muster.cli.errors import UsageFault
from muster.cli.profiles import read_profiles, require_profiles, with_profiles
from services.binding.core.config import Config as Binding
from services.placement.core.config import Config as Placement
from shared.extenders.values import CALLED
from shared.kubernetes.objects.errors import WorldError
from shared.model.objects import HostPort, Node, PodSpec, Requirement, SelectorTerm, Taint
from shared.model.options import read_options
from shared.model.profile import DEFAULT_FILTERS, SYSTEM_SPREAD, Configuration, Profile
from shared.worlds.settings import Choice, load_world

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE, WORLD = ROOT / "examples" / "scheduler-config.yaml", ROOT / "examples" / "profiles"
NAMES = ["default-scheduler", "gpu-scheduler", "batch-scheduler", "premium-scheduler"]
SSD = (SelectorTerm((Requirement("disk", "In", ("ssd",)),)),)


def test_the_example_becomes_options_of_three_services():
    config = read_profiles(EXAMPLE)
    found = with_profiles({"placement": {"batch": False}}, config)
    assert found["ingest"] == {"schedulers": tuple(NAMES), "default_spread": True, "volumes": True}
    assert found["queueing"] == {"preemption_except": ("batch-scheduler",)}
    placement = read_options(
        "placement", msgspec.json.decode(msgspec.json.encode(found)), Placement
    )
    assert config is not None
    assert placement.profiles == config.profiles
    assert not placement.batch
    without = with_profiles({"placement": {}}, None)
    assert without == {"placement": {}, "ingest": {"default_spread": True, "volumes": True}}


@pytest.mark.parametrize(
    ("changes", "spreads"),
    [
        ({}, True),
        ({"default_spread": (SYSTEM_SPREAD[0],)}, True),
        ({"default_spread": ()}, False),
        ({"filters": (), "scores": ()}, False),
        ({"filters": ()}, True),
    ],
)
def test_pods_are_spread_by_default_where_some_profile_does_it(changes, spreads):
    config = Configuration(profiles=(Profile(**changes),))
    assert with_profiles({}, config)["ingest"].get("default_spread", False) == spreads
    own = {"ingest": {"default_spread": False}}
    assert not with_profiles(own, None)["ingest"]["default_spread"], "what is set counts more"


def test_preemption_is_off_where_no_profile_has_it():
    off = Configuration(profiles=(Profile(preempts=False),))
    assert with_profiles({}, off)["queueing"]["preemption"] is False
    some = Configuration(profiles=(Profile(), Profile(name="calm", preempts=False)))
    options = with_profiles({}, some)["queueing"]
    assert (options.get("preemption"), options["preemption_except"]) == (None, ("calm",))


def test_queueing_learns_which_profiles_change_dynamic_resources():
    none, last = Profile(name="none", claims=""), Profile(name="last", claims="last")
    options = with_profiles({}, Configuration(profiles=(Profile(), none, last)))["queueing"]
    assert (options["claims_except"], options["claims_last"]) == (("none",), ("last",))


def test_scheduler_names_choose_among_the_profiles():
    config = read_profiles(EXAMPLE, ["gpu-scheduler"])
    assert config is not None
    assert [one.name for one in config.profiles] == ["gpu-scheduler"]
    with pytest.raises(UsageFault, match=r"--scheduler-name muster: .* has default-scheduler, gpu"):
        read_profiles(EXAMPLE, ["muster"])
    with pytest.raises(WorldError, match="must hold one KubeSchedulerConfiguration, holds 5"):
        read_profiles(WORLD / "20-pods.yaml")


def test_a_world_whose_pods_have_no_profile_is_refused():
    world = load_world([str(WORLD)], Choice(False, None, None)).world
    require_profiles(world, read_profiles(EXAMPLE))
    with pytest.raises(UsageFault, match=r"no profile 'gpu-scheduler', which pod .*train-0 names"):
        require_profiles(world, Configuration(profiles=(Profile(),)))


@pytest.mark.parametrize(
    ("profile", "spec", "expected"),
    [
        (Profile(), {"node_selector": (("a", "b"),)}, {}),
        (Profile(filters=("NodeResourcesFit",)), {"affinity_required": SSD}, None),
        (Profile(added_required=SSD), {}, {"affinity_required": SSD}),
        (Profile(added_required=()), {}, {"affinity_required": (SelectorTerm(),)}),
        (
            Profile(added_required=SSD),
            {"affinity_required": (SelectorTerm((Requirement("zone", "Exists"),)),)},
            {"affinity_required": (SelectorTerm((Requirement("zone", "Exists"), *SSD[0].labels)),)},
        ),
        (
            Profile(ignored_groups=("example.com",)),
            {"requests": (("cpu", 1), ("example.com/x", 1))},
            {"requests": (("cpu", 1),)},
        ),
    ],
)
def test_a_spec_for_the_default_filters(profile, spec, expected):
    before = PodSpec(host_ports=(HostPort(80),), **spec)
    after = as_by_default(before, profile)
    if expected is None:
        assert (after.affinity_required, after.host_ports, after.node_selector) == ((), (), ())
        assert {one.effect for one in after.tolerations} >= {"NoSchedule", "NoExecute"}
    else:
        assert after == msgspec.structs.replace(before, **expected)
    assert filters_by_default(profile) == (profile == Profile())


def test_pods_of_a_profile_without_a_filter_that_is_always_checked_are_not_checked(monkeypatch):
    profile = Profile(filters=tuple(one for one in DEFAULT_FILTERS if one != "NodePorts"))
    assert not has_own_filters(profile)
    more = (*DEFAULT_FILTERS, "AnotherFilter")
    monkeypatch.setattr("muster.checker.filters.default_filters.DEFAULT_FILTERS", more)
    assert has_own_filters(profile)
    assert not has_own_filters(Profile(filters=more))


def test_waiting_pods_are_checked_by_their_profiles_filters():
    nodes = [Node(uid="a", name="a", allocatable=(("cpu", 1), ("pods", 9)), taints=(Taint("k"),))]
    spec = PodSpec(requests=(("cpu", 1),), scheduler="p")

    def problems(profile: Profile) -> list[str]:
        final = Final(nodes, waiting=[Waiting(1, "w", spec, "0/1 nodes are available: 1 no.")])
        return confirm(final, {"p": profile}).problems

    tolerant = tuple(name for name in Profile().filters if name != "TaintToleration")
    assert "fits on node a" in problems(Profile(name="p", filters=tolerant))[0]
    assert problems(Profile(name="p", filters=tolerant, added_required=SSD)) == []


@pytest.fixture
def no_extenders():
    yield
    CALLED.clear()


def test_extenders_are_an_option_of_the_shards(tmp_path, no_extenders):
    path = tmp_path / "config.json"
    written = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    extender = {"urlPrefix": "http://h/x", "filterVerb": "filter"}
    path.write_text(json.dumps(written | {"extenders": [extender]}))
    config = read_profiles(path)
    assert config is not None
    options = with_profiles({}, config)
    assert read_options("placement", options, Placement).extenders == config.extenders
    assert list(config.extenders) == CALLED
    preempts = {"urlPrefix": "http://h/x", "preemptVerb": "preempt"}
    path.write_text(json.dumps(written | {"extenders": [preempts]}))
    config = read_profiles(path)
    assert config is not None
    options = with_profiles({}, config)
    assert read_options("placement", options, Placement).extenders == config.extenders
    assert read_options("binding", options, Binding).preempters == config.extenders
    path.write_text(json.dumps(written | {"extenders": []}))
    assert "extenders" not in with_profiles({}, read_profiles(path))["placement"]
    assert CALLED == [], "what another file said does not count any more"
