"""Each release of kube-scheduler has its own plugins and arguments."""

import pytest

from shared.configuration.scheduler_config import config_of
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.model.profile import DEFAULT_FILTERS, default_profile
from shared.model.release import VERSIONS, release

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
V1_35, V1_36, V1_37 = VERSIONS
BOTH = V1_36, V1_37
SHAPE = [{"utilization": 0, "score": 1}, {"utilization": 100, "score": 10}]
RATIO = {"type": "LeastAllocated", "requestedToCapacityRatio": {"shape": SHAPE}}


def read(version, gates=None, **fields):
    document = Fields.root("file", {**HEAD, "profiles": [fields]})
    (profile,) = config_of(document, release(version, gates or {})).profiles
    return profile


def args(name, **arguments):
    return {"pluginConfig": [{"name": name, "args": arguments}]}


def at(point, name):
    return {"plugins": {point: {"enabled": [{"name": name}]}}}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_profile_is_the_default_one_of_the_release(version):
    found = read(version, schedulerName="default-scheduler")
    assert found == default_profile(release(version, {}))


def test_node_name_goes_before_node_unschedulable_since_1_37():
    assert read(V1_36).filters == (*DEFAULT_FILTERS, "NodeDeclaredFeatures")
    first = "NodeName", "NodeUnschedulable"
    assert read(V1_37).filters == (*first, *DEFAULT_FILTERS[2:], "NodeDeclaredFeatures")
    assert (read(V1_36).keeps_to_node, read(V1_37).keeps_to_node) == (False, True)
    off = {"preFilter": {"disabled": [{"name": "NodeName"}]}}
    assert not read(V1_37, plugins=off).keeps_to_node


def test_a_gate_takes_its_plugin_away():
    assert read(V1_36, {"NodeDeclaredFeatures": False}).filters == DEFAULT_FILTERS
    assert "NodeDeclaredFeatures" in read(V1_35, {"NodeDeclaredFeatures": True}).filters


@pytest.mark.parametrize(
    ("fields", "versions"),
    [
        (args("VolumeBinding", shape=SHAPE), (V1_37,)),
        (args("VolumeBinding", shape=[]), (V1_37,)),
        (args("DynamicResources", bindingTimeout="2s"), BOTH),
        (args("DynamicResources", bindingTimeout="500ms"), ()),
        (args("NodeResourcesFit", scoringStrategy=RATIO), (V1_35,)),
        (at("preFilter", "NodeName"), (V1_37,)),
        (at("preFilter", "TaintToleration"), (V1_37,)),
        (at("filter", "NodeDeclaredFeatures"), VERSIONS),
        (at("multiPoint", "DeferredPodScheduling"), (V1_37,)),
        (at("multiPoint", "PodGroupPodsCount"), BOTH),
        (at("reserve", "GangScheduling"), (V1_35,)),
        (at("permit", "GangScheduling"), VERSIONS),
        (at("placementScore", "NodeResourcesFit"), BOTH),
        (at("placementScore", "ImageLocality"), ()),
        (at("placementGenerate", "TopologyPlacementGenerator"), BOTH),
        (at("podGroupPostFilter", "DefaultPreemption"), (V1_37,)),
        (at("podGroupPostFilter", "NodeName"), ()),
    ],
)
def test_each_release_accepts_its_own_arguments_and_plugins(fields, versions):
    taken = []
    for version in VERSIONS:
        try:
            read(version, **fields)
        except WorldError:
            continue
        taken.append(version)
    assert tuple(taken) == tuple(versions)


def test_the_shape_of_volume_scores_is_read():
    assert read(V1_37).volume_shape == ((0, 100), (100, 0))
    assert read(V1_37, **args("VolumeBinding", shape=[])).volume_shape == ((0, 100), (100, 0))
    assert read(V1_37, **args("VolumeBinding", shape=SHAPE)).volume_shape == ((0, 10), (100, 100))
