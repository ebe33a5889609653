"""preEnqueue and queueSort of custom plugins: the questions, and bad answers."""

from typing import Any

import pytest

from shared.configuration.scheduler_config import config_of
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.model.objects import PodSpec
from shared.model.profile import Configuration, CustomPlugin
from shared.scheduling.api.custom.plugin import PLUGINS, PluginMissing
from shared.scheduling.api.custom.queue import QueuePlugins
from tests.support.custom_plugins import SHA256, ByRank, ByZone, HasTeam, Unsure, known

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ONE_NEEDED = "only one queue sort plugin required for profile with scheduler name"


def _unsure(how: str) -> PodSpec:
    return PodSpec(priority=9, shown=(("labels.how", how),))


def test_the_first_rejecting_plugin_is_named_with_its_message():
    with known(HasTeam, Unsure) as (team, unsure):
        both = QueuePlugins({"default-scheduler": [unsure, team]}, None)
        assert both.gate(_unsure("open")) == "HasTeam: the pod names no team"
        named = PodSpec(shown=(("labels.how", "open"), ("labels.team", "a")))
        assert both.gate(named) == ""
        assert both.gate(PodSpec(scheduler="other")) == "", "another scheduler's pods are not asked"
        assert both.order(_unsure("open")) == 9, "without QueueSort the priority counts"


def test_a_failing_plugin_gates_the_pod_and_leaves_the_priority():
    with known(Unsure) as (one,):
        plugins = QueuePlugins({"default-scheduler": [one]}, one)
        raised = plugins.gate(_unsure("float"))
        assert raised.startswith("plugin Unsure raised KeyError at line ")
        assert plugins.gate(_unsure("number")) == "plugin Unsure: pre_enqueue gave no text"
        assert [plugins.order(_unsure(how)) for how in ("open", "float", "large", "x")] == [
            *(3, 9, 9, 9),
        ]
        assert PLUGINS["Unsure"].made_with("").errors == 5


def test_another_file_is_refused():
    with known(HasTeam) as (team,), pytest.raises(PluginMissing, match="Other is needed"):
        QueuePlugins({"a": [team], "b": [CustomPlugin("Other", SHA256)]}, None)
    with known(ByRank), pytest.raises(PluginMissing, match="is not the one that was used"):
        QueuePlugins({}, CustomPlugin("ByRank", "1" * 64))


def _config(*profiles: Any) -> Configuration:
    return config_of(Fields.root("file", {**HEAD, "profiles": list(profiles)}))


def _error(*profiles: Any) -> str:
    with pytest.raises(WorldError) as caught:
        _config(*profiles)
    return str(caught.value)


def _sorted_by(*names: str, **more: Any) -> dict[str, Any]:
    queue_sort = {"enabled": [{"name": name} for name in names], "disabled": [{"name": "*"}]}
    return {"plugins": {"queueSort": queue_sort}, **more}


def test_a_profile_names_them_at_their_points():
    at_point = {"preEnqueue": {"enabled": [{"name": "HasTeam"}]}}
    anywhere = {"multiPoint": {"enabled": [{"name": "HasTeam"}]}}
    with known(HasTeam, ByRank, ByZone) as (team, rank, _):
        for plugins in (at_point, anywhere):
            (found,) = _config({"plugins": plugins}).profiles
            assert (found.pre_enqueue, found.queue_sort, found.custom) == ((team,), None, ())
        (found,) = _config(_sorted_by("ByRank")).profiles
        assert (found.pre_enqueue, found.queue_sort, found.custom) == ((), rank, ())
        assert "ByZone does not extend queueSort" in _error(_sorted_by("ByZone"))


def test_every_profile_has_one_queue_sort_and_all_the_same():
    with known(ByRank):
        said = _error({"plugins": {"multiPoint": {"enabled": [{"name": "ByRank"}]}}})
        assert f'plugins.queueSort: {ONE_NEEDED} "default-scheduler", but got 2' in said
        said = _error({"plugins": {"queueSort": {"disabled": [{"name": "*"}]}}})
        assert f'{ONE_NEEDED} "default-scheduler", but got 0' in said
        said = _error(_sorted_by("ByRank", "PrioritySort"))
        assert "queueSort.enabled: only one queue sort plugin can be enabled" in said
        named = [{"schedulerName": name} for name in "ab"]
        said = _error(named[0], {**named[1], **_sorted_by("ByRank")})
        assert "profiles[1].plugins.queueSort: has to match for all profiles" in said
        same = _config(*({**one, **_sorted_by("ByRank")} for one in named))
        assert [one.queue_sort.name for one in same.profiles if one.queue_sort] == ["ByRank"] * 2


def test_profiles_that_spread_other_plugins_over_the_points_do_not_match_either():
    """kube-scheduler would take the first profile's for all pods, without a word."""
    without = {"disabled": [{"name": "PrioritySort"}]}

    def profile(name: str, plugin: str) -> dict[str, Any]:
        spread = {"multiPoint": {"enabled": [{"name": plugin}]}, "queueSort": without}
        return {"schedulerName": name, "plugins": spread}

    with known(ByRank, Unsure):
        said = _error(profile("a", "ByRank"), profile("b", "Unsure"))
        assert "profiles[1].plugins.queueSort: has to match for all profiles" in said
