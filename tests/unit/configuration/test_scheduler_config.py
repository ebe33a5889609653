"""KubeSchedulerConfiguration: defaults, weights, order and arguments, and the errors' texts.
tests/parity compares with kube-scheduler which files are refused.
"""

from pathlib import Path
from typing import Any

import pytest

from shared.configuration.scheduler_config import config_of, read_config
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.model.election import Election
from shared.model.objects import PreferredTerm, Requirement, SelectorTerm, SpreadConstraint
from shared.model.profile import DEFAULT_FILTERS, DEFAULT_SCORES, Configuration, Profile, Strategy

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def _profile(**fields: Any) -> Profile:
    (found,) = config_of(Fields.root("file", {**HEAD, "profiles": [fields]})).profiles
    return found


def _error(**fields: Any) -> str:
    with pytest.raises(WorldError) as caught:
        config_of(Fields.root("file", {**HEAD, **fields}))
    return str(caught.value)


def test_an_empty_file_is_the_default_profile():
    found = config_of(Fields.root("file", HEAD))
    assert found == Configuration(profiles=(Profile(),), election=Election())


def test_leader_election_is_read():
    told = {"resourceName": "ours", "resourceNamespace": "there", "leaseDuration": "1m30s"}
    election = {**told, "renewDeadline": "20s", "retryPeriod": "1500ms"}
    found = config_of(Fields.root("file", {**HEAD, "leaderElection": election}))
    assert found.election == Election("ours", "there", 90, 20.0, 1.5)


def test_leader_election_may_be_off():
    off = {**HEAD, "leaderElection": {"leaderElect": False}}
    assert config_of(Fields.root("file", off)).election is None


def test_a_default_that_is_named_keeps_its_place_and_loses_its_weight():
    found = _profile(plugins={"multiPoint": {"enabled": [{"name": "NodeAffinity"}]}})
    assert found.filters == DEFAULT_FILTERS
    assert dict(found.scores) == {**dict(DEFAULT_SCORES), "NodeAffinity": 1}


def test_plugins_named_at_a_point_come_first():
    found = _profile(
        plugins={
            "filter": {"enabled": [{"name": "NodePorts"}], "disabled": [{"name": "NodeName"}]},
            "score": {"enabled": [{"name": "NodeAffinity", "weight": 7}]},
        }
    )
    others = [name for name in DEFAULT_FILTERS if name not in ("NodePorts", "NodeName")]
    assert found.filters == ("NodePorts", *others)
    assert found.scores[0] == ("NodeAffinity", 7)
    assert (found.weight("TaintToleration"), found.weight("NodePorts")) == (3, 0)


def test_a_disabled_plugin_may_be_named_again_and_comes_last():
    names = ("NodePorts", "NodeAffinity")
    found = _profile(
        plugins={
            "filter": {
                "enabled": [{"name": name} for name in names],
                "disabled": [{"name": "NodePorts"}],
            }
        }
    )
    assert (found.filters[0], found.filters[-1]) == ("NodeAffinity", "NodePorts")


def test_only_named_plugins_run_where_all_are_disabled():
    found = _profile(
        plugins={"score": {"enabled": [{"name": "NodeAffinity"}], "disabled": [{"name": "*"}]}}
    )
    assert found.scores == (("NodeAffinity", 1),)


def test_pre_filter_and_post_filter_change_the_profile():
    found = _profile(
        plugins={
            "preFilter": {"disabled": [{"name": "NodeAffinity"}]},
            "postFilter": {"disabled": [{"name": "DefaultPreemption"}]},
        }
    )
    assert (found.names_nodes, found.preempts) == (False, False)


@pytest.mark.parametrize(
    ("plugins", "claims"),
    [
        ({}, "first"),
        ({"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}, "first"),
        ({"postFilter": {"enabled": [{"name": "DefaultPreemption"}]}}, "last"),
        ({"postFilter": {"disabled": [{"name": "DynamicResources"}]}}, ""),
        ({"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}, ""),
        ({"postFilter": {"disabled": [{"name": "*"}]}}, ""),
    ],
)
def test_dynamic_resources_keep_their_place_at_post_filter(plugins, claims):
    assert _profile(plugins=plugins).claims == claims


@pytest.mark.parametrize("off", ["filter", "score", "postFilter"])
def test_dynamic_resources_need_their_pre_filter(off):
    """kube-scheduler takes such a profile, and fails where they find no state."""
    others = {"filter", "score", "postFilter"} - {off}
    plugins = {one: {"disabled": [{"name": "DynamicResources"}]} for one in (*others, "preFilter")}
    with pytest.raises(WorldError, match="DynamicResources is not enabled, but its "):
        _profile(plugins=plugins)
    _profile(plugins=plugins | {off: plugins["preFilter"]})


def test_plugin_arguments_become_fields_of_the_profile():
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    shape = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
    found = _profile(
        pluginConfig=[
            {
                "name": "NodeResourcesFit",
                "args": {
                    "ignoredResources": ["example.com/widget"],
                    "ignoredResourceGroups": ["example.org"],
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "resources": [{"name": "cpu", "weight": 3}, {"name": "nvidia.com/gpu"}],
                        "requestedToCapacityRatio": {"shape": shape},
                    },
                },
            },
            {
                "name": "NodeResourcesBalancedAllocation",
                "args": {"resources": [{"name": "cpu"}, {"name": "memory"}, {"name": "x.y/z"}]},
            },
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [term]
                        },
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 7, "preference": term}
                        ],
                    }
                },
            },
        ]
    )
    terms = SelectorTerm((Requirement("disk", "In", ("ssd",)),))
    assert found == Profile(
        strategy=Strategy(
            "RequestedToCapacityRatio",
            (("cpu", 3), ("nvidia.com/gpu", 1)),
            ((0, 100), (100, 0)),
        ),
        balanced=("cpu", "memory", "x.y/z"),
        ignored_resources=("example.com/widget",),
        ignored_groups=("example.org",),
        added_required=(terms,),
        added_preferred=(PreferredTerm(7, terms),),
    )


def test_added_rules_are_read_as_kube_scheduler_reads_them_and_not_as_those_of_pods():
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    soft = [{"weight": 200, "preference": term}, {"weight": 0, "preference": term}]
    added = {"preferredDuringSchedulingIgnoredDuringExecution": soft}
    spread = {"maxSkew": 1, "topologyKey": "zone", "nodeAffinityPolicy": "Foo", "minDomains": 0}
    constraints = [{**spread, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["x"]}]
    found = _profile(
        pluginConfig=[
            {"name": "NodeAffinity", "args": {"addedAffinity": added}},
            {
                "name": "PodTopologySpread",
                "args": {"defaultingType": "List", "defaultConstraints": constraints},
            },
        ]
    )
    terms = SelectorTerm((Requirement("disk", "In", ("ssd",)),))
    assert found.added_preferred == (PreferredTerm(200, terms), PreferredTerm(0, SelectorTerm()))
    assert found.default_spread == (SpreadConstraint("zone", 1, honor_affinity=False),)


@pytest.mark.parametrize(
    ("written", "timeout_ms"), [("500us", 1), ("1500us", 2), ("-1s", 86_400_000), ("0s", 5_000)]
)
def test_no_extender_is_waited_for_without_end(written, timeout_ms):
    one = {"urlPrefix": "http://h", "filterVerb": "f", "httpTimeout": written}
    (found,) = config_of(Fields.root("file", {**HEAD, "extenders": [one]})).extenders
    assert found.timeout_ms == timeout_ms


def test_a_plugin_behind_a_gate_that_is_off_does_nothing():
    gated = {"enabled": [{"name": "GangScheduling"}, {"name": "NodeDeclaredFeatures"}]}
    assert _profile(plugins={"multiPoint": gated}) == Profile()


def test_several_profiles_and_the_backoff_of_all():
    profiles = [{"schedulerName": "a"}, {"schedulerName": "b"}]
    fields = {**HEAD, "podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 60}
    found = config_of(Fields.root("file", {**fields, "profiles": profiles}))
    assert [one.name for one in found.profiles] == ["a", "b"]
    assert (found.backoff_initial_ms, found.backoff_max_ms) == (2_000, 60_000)


def test_errors_name_file_field_and_rule():
    assert _error(profile=[]) == "file: profile: is an unknown field; did you mean profiles?"
    assert _error(profiles=[{"plugins": {"filter": {"enabled": [{"name": "Foo"}]}}}]) == (
        "file: profiles[0].plugins.filter.enabled[0].name: there is no plugin 'Foo'"
    )
    added = {"name": "NodeAffinity", "args": {"added": {}}}
    assert _error(profiles=[{"pluginConfig": [added]}]) == (
        "file: profiles[0].pluginConfig[0].args.added: is an unknown field"
    )
    binder = {"urlPrefix": "http://h", "bindVerb": "bind"}
    assert "extenders[1].bindVerb: only one extender can" in _error(extenders=[binder, binder])
    idle = {"urlPrefix": "http://h"}
    assert "extenders[0]: without any verb is not" in _error(extenders=[idle])
    plain = {"urlPrefix": "x", "filterVerb": "filter"}
    assert "extenders[0].urlPrefix: 'x' is not a URL" in _error(extenders=[plain])
    late = plain | {"urlPrefix": "http://h", "httpTimeout": "5"}
    assert "extenders[0].httpTimeout: '5' is not a duration" in _error(extenders=[late])
    assert "profiles[1].schedulerName: 'a' is a duplicate" in _error(
        profiles=[{"schedulerName": "a"}, {"schedulerName": "a"}]
    )


def test_a_file_holds_one_configuration(tmp_path: Path):
    path = tmp_path / "config.yaml"
    text = "\n".join(f"{key}: {value}" for key, value in HEAD.items())
    path.write_text(text)
    assert read_config(path).profiles == (Profile(),)
    path.write_text(f"{text}\n---\n{text}\n")
    with pytest.raises(WorldError, match="must hold one KubeSchedulerConfiguration, holds 2"):
        read_config(path)
    path.write_text(f"{text}\nkind: Other\n")
    with pytest.raises(WorldError, match="'kind' is a duplicate"):
        read_config(path)
    with pytest.raises(WorldError, match="does not exist"):
        read_config(tmp_path / "absent.yaml")
