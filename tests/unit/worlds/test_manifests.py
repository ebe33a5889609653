"""Manifests: the pods, nodes, budgets and gangs that they give."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.kubernetes.objects.errors import WorldError
from shared.model.cluster_objects import (
    LabelSelector,
    Namespace,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from shared.model.columns import split
from shared.model.images import packed
from shared.model.objects import (
    GpuRequest,
    HostPort,
    PodTerm,
    PreferredTerm,
    Requirement,
    SelectorTerm,
    SpreadConstraint,
    Taint,
    Toleration,
)
from shared.worlds.manifests import manifests_world
from tests.unit.worlds.manifests import NODE, container, controller, pod, priority_class

MI = 1 << 20
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "manifests"


@pytest.fixture
def read(tmp_path):
    """Objects to a world, through a file."""

    def reading(*objects):
        path = tmp_path / "all.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return manifests_world([path])

    return reading


def spec_of(world):
    (arrival,) = world.arrivals
    return arrival.pods.spec


def names(world):
    return [name for arrival in world.arrivals for name in split(arrival.pods.names)]


def test_the_priority_classes_that_every_cluster_has_are_taken_from_a_dump(read):
    critical = priority_class("system-node-critical", 2_000_001_000)
    world = read(critical, pod(priorityClassName="system-node-critical"))
    assert spec_of(world).priority == 2_000_001_000


def test_a_pod_without_requests_is_scored_with_the_defaults(read):
    spec = spec_of(read(pod()))
    assert spec.requests == ()
    assert (spec.nonzero_cpu_milli, spec.nonzero_memory_bytes) == (100, 200 * MI)


def test_an_explicit_zero_is_no_default(read):
    spec = spec_of(read(pod(containers=[container(cpu="0", memory=0)])))
    assert (spec.nonzero_cpu_milli, spec.nonzero_memory_bytes) == (0, 0)


def test_the_defaults_count_per_container(read):
    spec = spec_of(read(pod(containers=[container(cpu="1"), container(memory="1Gi"), container()])))
    assert spec.requests == (("cpu", 1000), ("memory", 1024 * MI))
    assert spec.nonzero_cpu_milli == 1200
    assert spec.nonzero_memory_bytes == (200 + 1024 + 200) * MI


def test_a_limit_without_request_is_the_request(read):
    asked = {"name": "c", "resources": {"limits": {"cpu": 2, "example.com/fpga": 1}}}
    assert spec_of(read(pod(containers=[asked]))).requests == (
        ("cpu", 2000),
        ("example.com/fpga", 1),
    )


@pytest.mark.parametrize(
    ("init", "cpu_milli"),
    [
        ([container(cpu="3")], 3000),
        ([container(cpu="1")], 2000),
        ([container(sidecar=True, cpu="1")], 3000),
        ([container(sidecar=True, cpu="1"), container(cpu="2500m")], 3500),
        ([container(cpu="2500m"), container(sidecar=True, cpu="1")], 3000),
        ([container(cpu="3500m"), container(sidecar=True, cpu="1")], 3500),
    ],
)
def test_init_containers_and_sidecars_count_as_kube_scheduler_counts_them(read, init, cpu_milli):
    spec = spec_of(read(pod(containers=[container(cpu="2")], initContainers=init)))
    assert spec.request("cpu") == cpu_milli


def test_overhead_is_added(read):
    spec = spec_of(read(pod(containers=[container(cpu="1")], overhead={"cpu": "250m"})))
    assert (spec.request("cpu"), spec.nonzero_cpu_milli) == (1250, 1250)


def test_pod_level_requests_override(read):
    asked = {"requests": {"cpu": "5"}}
    spec = spec_of(read(pod(containers=[container(cpu="1")], resources=asked)))
    assert (spec.request("cpu"), spec.nonzero_cpu_milli) == (5000, 5000)


@pytest.mark.parametrize(
    ("containers", "limits", "cpu_milli"),
    [
        ([container(cpu="500m"), container()], {"cpu": "600m"}, 500),
        ([container(), container()], {"cpu": "600m"}, 600),
        ([container(cpu="500m")], {"cpu": "0"}, 500),
        ([container(cpu="500m")], {"memory": "1Gi"}, 500),
    ],
)
def test_pod_level_limits_are_requests_where_no_container_asks(read, containers, limits, cpu_milli):
    spec = spec_of(read(pod(containers=containers, resources={"limits": limits})))
    assert spec.request("cpu") == cpu_milli


@pytest.mark.parametrize(
    ("containers", "requests", "on_the_node", "scored"),
    [
        # The defaults count for no container once the pod or a container says how much it wants.
        ([container(cpu="500m"), container()], {"cpu": "600m"}, (600, 400), (600, 400)),
        ([container(memory="256Mi"), container()], {"cpu": "600m"}, (600, 256), (200, 456)),
        ([container(), container()], {"cpu": "600m"}, (600, 400), (200, 400)),
        ([container(cpu="1"), container()], {"cpu": "0"}, (0, 400), (1100, 400)),
    ],
)
def test_least_allocated_passes_pod_level_requests_of_the_scored_pod_over(
    read, containers, requests, on_the_node, scored
):
    spec = spec_of(read(pod(containers=containers, resources={"requests": requests})))
    assert (spec.nonzero_cpu_milli, spec.nonzero_memory_bytes // MI) == on_the_node
    cpu_milli, memory_bytes = spec.asked or (spec.nonzero_cpu_milli, spec.nonzero_memory_bytes)
    assert (cpu_milli, memory_bytes // MI) == scored
    assert (spec.asked is None) == (scored == on_the_node)


def test_thousandths_are_added_up_before_they_are_rounded(read):
    containers = [container(memory="33554432499500u", cpu="100u") for _ in range(2)]
    assert spec_of(read(pod(containers=containers))).requests == (("cpu", 2), ("memory", 67108865))


def test_gpus_are_whole_devices_or_a_fraction_of_one(read):
    whole = read(pod(containers=[container(**{"nvidia.com/gpu": 2})]))
    assert spec_of(whole).gpu == GpuRequest(1000, 2)
    assert spec_of(whole).requests == ()
    part = read(pod(containers=[container(**{"muster.io/gpu-milli": 250})]))
    assert spec_of(part).gpu == GpuRequest(250)


def test_placement_rules_are_read(read):
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}]}
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term, named]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}],
    }
    spec = spec_of(
        read(
            pod(
                nodeSelector={"b": "2", "a": "1"},
                affinity={"nodeAffinity": affinity},
                tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v"}],
                schedulerName="gpu-scheduler",
                priorityClassName="low",
            ),
            priority_class("low", -5, preemptionPolicy="Never"),
        )
    )
    zone = SelectorTerm((Requirement("zone", "In", ("a", "b")),))
    name = SelectorTerm((), (Requirement("metadata.name", "In", ("n",)),))
    assert spec.node_selector == (("a", "1"), ("b", "2"))
    assert spec.affinity_required == (zone, name)
    assert spec.affinity_preferred == (PreferredTerm(7, zone),)
    assert spec.tolerations == (Toleration("", "Exists"), Toleration("k", "Equal", "v"))
    assert (spec.scheduler, spec.never_preempts) == ("gpu-scheduler", True)


def test_rules_between_pods_are_read(read):
    selector = {"labelSelector": {"matchLabels": {"app": "db"}}}
    term = {"topologyKey": "zone", **selector, "namespaceSelector": {}}
    even = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway", **selector}
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"podAntiAffinity": {hard: [term]}}
    spec = spec_of(read(pod(affinity=affinity, topologySpreadConstraints=[even])))
    is_db = (Requirement("app", "In", ("db",)),)
    assert spec.pod_anti_affinity == (PodTerm("zone", is_db, namespace_selector=()),)
    assert spec.spread == (SpreadConstraint("zone", 2, hard=False, selector=is_db),)
    assert (spec.namespace, spec.labels) == ("", ()), (
        "only ingest adds the identity, for rules that need it"
    )


def test_namespaces_are_read_with_the_label_of_their_name(read):
    labels = {"name": "team", "labels": {"env": "test"}}
    world = read({"apiVersion": "v1", "kind": "Namespace", "metadata": labels})
    (team,) = world.objects
    name = ("kubernetes.io/metadata.name", "team")
    assert team == Namespace(uid="namespace.team", name="team", labels=(("env", "test"), name))


def test_a_pod_that_is_being_deleted_is_known_as_such(read):
    leaves = pod("leaves")
    leaves["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    first, second = read(leaves, pod("stays")).arrivals
    assert (first.pods.terminating, second.pods.terminating) == (True, False)


def test_host_ports_count_also_from_the_host_network(read):
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]
    plain = read(pod(containers=[{"name": "c", "ports": ports}]))
    assert spec_of(plain).host_ports == (HostPort(8080),)
    onhost = read(pod(containers=[{"name": "c", "ports": ports[1:]}], hostNetwork=True))
    assert spec_of(onhost).host_ports == (HostPort(53, "UDP"),)


def test_gates_priority_and_policy_are_read(read):
    world = read(
        priority_class("high", 500, preemptionPolicy="Never"),
        priority_class("usual", 7, globalDefault=True),
        pod("gated", schedulingGates=[{"name": "wait"}]),
        pod("urgent", priorityClassName="high"),
        pod("system", priorityClassName="system-node-critical"),
    )
    found = {a.pods.names: (a.pods.gated, a.pods.spec.priority) for a in world.arrivals}
    assert found == {"gated": (True, 7), "urgent": (False, 500), "system": (False, 2_000_001_000)}
    assert [a.pods.spec.never_preempts for a in world.arrivals] == [False, True, False]


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("Deployment", {"replicas": 3}, ["x-0", "x-1", "x-2"]),
        ("ReplicaSet", {}, ["x-0"]),
        ("StatefulSet", {"replicas": 0}, []),
        ("Job", {"parallelism": 3, "completions": 2}, ["x-0", "x-1"]),
        ("Job", {"parallelism": 3, "suspend": True}, []),
    ],
)
def test_controllers_stand_for_their_pods(read, kind, settings, expected):
    assert names(read(controller(kind, "x", **settings))) == expected


def on(name, *, taints=(), **labels):
    spec = {"taints": [{"key": key, "effect": effect} for key, effect in taints]}
    return NODE | {"metadata": {"name": name, "labels": labels}, "spec": spec}


def test_a_daemon_set_has_a_pod_for_each_node_that_it_is_for(read):
    """What its controller would make: by nodeSelector, affinity and taints, not by room."""
    nodes = [
        on("plain", disk="ssd"),
        on("cordoned", taints=[("node.kubernetes.io/unschedulable", "NoSchedule")], disk="ssd"),
        on("other", disk="hdd"),
        on("tainted", taints=[("dedicated", "NoExecute")], disk="ssd"),
        on("rather-not", taints=[("busy", "PreferNoSchedule")], disk="ssd"),
        on("no-network", taints=[("node.kubernetes.io/network-unavailable", "NoSchedule")], a="b"),
    ]
    made = controller("DaemonSet", "agent", updateStrategy={"type": "OnDelete"})
    inner = made["spec"]["template"]["spec"]
    every = {"agent-plain", "agent-cordoned", "agent-other", "agent-rather-not"}
    assert set(names(read(*nodes, made))) == every
    inner["nodeSelector"] = {"disk": "ssd"}
    world = read(*nodes, made)
    assert set(names(world)) == every - {"agent-other"}
    spec = world.arrivals[0].pods.spec
    here = SelectorTerm(fields=(Requirement("metadata.name", "In", ("plain",)),))
    assert spec.affinity_required == (here,)
    assert Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute") in spec.tolerations
    inner["tolerations"] = [{"operator": "Exists"}]
    assert set(names(read(*nodes, made))) == every - {"agent-other"} | {"agent-tainted"}
    del inner["tolerations"], inner["nodeSelector"]
    inner["hostNetwork"] = True
    assert set(names(read(*nodes, made))) == every | {"agent-no-network"}
    inner["nodeName"] = "plain"
    assert names(read(*nodes, made)) == ["agent-plain"]


def test_equal_pods_are_one_column(read):
    world = read(controller("Deployment", "x", replicas=1000))
    (arrival,) = world.arrivals
    assert len(split(arrival.pods.uids)) == 1000


def test_annotations_delay_arrival_and_end_pods(read):
    late = pod("late")
    late["metadata"]["annotations"] = {
        "muster.io/arrives-after": "2.5s",
        "muster.io/runs-for": "1m",
    }
    world = read(late, pod("now"))
    assert [(a.pods.names, a.at_ms, a.lifetime_ms) for a in world.arrivals] == [
        ("now", 0, 0),
        ("late", 2_500, 60_000),
    ]


def test_nodes_are_read(read):
    node = NODE | {
        "spec": {"taints": [{"key": "k", "effect": "NoExecute"}], "unschedulable": True},
        "status": {"capacity": {"cpu": "9"}, "allocatable": {"cpu": "7500m", "nvidia.com/gpu": 4}},
    }
    node["metadata"] = {"name": "n1", "labels": {"nvidia.com/gpu.product": "A100"}}
    (found,) = read(node).nodes
    assert found.allocatable == (("cpu", 7500), ("pods", 110))
    assert found.labels == {"kubernetes.io/hostname": "n1", "nvidia.com/gpu.product": "A100"}
    assert found.taints == (Taint("k", "", "NoExecute"),)
    assert (found.unschedulable, found.gpu_count, found.gpu_model) == (True, 4, "A100")


def test_capacity_stands_in_for_allocatable(read):
    (found,) = read(NODE | {"status": {"capacity": {"cpu": 2, "pods": 10}}}).nodes
    assert found.allocatable == (("cpu", 2000), ("pods", 10))


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        *(({"minAvailable": 7}, 3), ({"minAvailable": "25%"}, 7), ({"maxUnavailable": 2}, 2)),
        *(({"maxUnavailable": "25%"}, 3), ({"minAvailable": 20}, 0), ({}, 9)),
    ],
)
def test_budgets_allow_what_their_healthy_pods_leave(read, rule, allowed):
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, **rule},
    }
    (found,) = read(budget, controller("Deployment", "x", replicas=10)).budgets
    assert found.allowed == allowed


def workload(policy):
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "w", "annotations": {"muster.io/gang-timeout": "90s"}},
        "spec": {"podGroups": [{"name": "g", "policy": policy}]},
    }


def member(name, **more):
    return pod(name, workloadRef={"name": "w", "podGroup": "g", **more})


def test_a_gang_comes_from_a_workload(read):
    world = read(workload({"gang": {"minCount": 2}}), NODE, member("a"), member("b"))
    (gang,) = world.gangs
    assert (gang.key, gang.min_count, gang.timeout_ms) == ("default/w/g", 2, 90_000)
    assert {arrival.pods.gang for arrival in world.arrivals} == {"default/w/g"}


def pod_group(policy, version="v1beta1", **spec):
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "g", "annotations": {"muster.io/gang-timeout": "90s"}},
        "spec": {"schedulingPolicy": policy, **spec},
    }


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_a_gang_comes_from_a_pod_group(read, version):
    group = pod_group({"gang": {"minCount": 2}}, version)
    pods = [pod(name, schedulingGroup={"podGroupName": "g"}) for name in "ab"]
    world = read(group, NODE, *pods)
    (gang,) = world.gangs
    assert (gang.key, gang.min_count, gang.timeout_ms) == ("default/g", 2, 90_000)
    assert {arrival.pods.gang for arrival in world.arrivals} == {"default/g"}


def test_a_pod_group_has_the_priority_of_its_class(read):
    group = pod_group({"gang": {"minCount": 1}}, priorityClassName="low")
    member = pod("a", schedulingGroup={"podGroupName": "g"})
    usual = priority_class("usual", 3, globalDefault=True)
    for given, expected in ((group, -5), (pod_group({"gang": {"minCount": 1}}), 3)):
        world = read(given, NODE, member, priority_class("low", -5), usual)
        assert [gang.priority for gang in world.gangs] == [expected]


def test_a_basic_pod_group_gates_nothing(read):
    world = read(pod_group({"basic": {}}), pod("a", schedulingGroup={"podGroupName": "g"}))
    assert world.gangs == ()
    assert world.arrivals[0].pods.gang == ""


@pytest.mark.parametrize(
    ("mode", "is_unit"),
    [("Pod", False), ("PodGroup", True), ({"single": {}}, False), ({"all": {}}, True)],
)
@pytest.mark.parametrize("policy", [{"basic": {}}, {"gang": {"minCount": 1}}])
def test_the_pods_of_a_group_leave_together_or_not(read, mode, is_unit, policy):
    group = pod_group(policy, disruptionMode=mode)
    world = read(group, NODE, pod("a", schedulingGroup={"podGroupName": "g"}))
    gangs = [(gang.min_count, gang.is_unit) for gang in world.gangs]
    assert gangs == [(1, is_unit)] * ("gang" in policy or is_unit)


def test_a_workload_of_templates_is_ignored_with_a_word(read):
    templates = [{"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}}]
    made = workload({}) | {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "spec": {"podGroupTemplates": templates},
    }
    (rejected,) = read(made).rejected
    assert (
        rejected.rule
        == "Workload w is ignored: it holds templates; the PodGroups made of them count"
    )


def test_each_replica_key_is_a_gang_of_its_own(read):
    world = read(
        workload({"gang": {"minCount": 1}}),
        NODE,
        member("a", podGroupReplicaKey="1"),
        member("b", podGroupReplicaKey="2"),
    )
    assert [gang.key for gang in world.gangs] == ["default/w/g/1", "default/w/g/2"]


def test_a_basic_group_gates_nothing(read):
    world = read(workload({"basic": {}}), member("a"))
    assert world.gangs == ()
    assert world.arrivals[0].pods.gang == ""


def test_a_missing_workload_leaves_its_pods_waiting(read):
    world = read(member("a"))
    assert world.gangs == ()
    assert world.arrivals[0].pods.gang == "default/w/g"


def test_a_bound_pod_names_its_node(read):
    (arrival,) = read(NODE, pod(nodeName="n1")).arrivals
    assert arrival.pods.nodes == "n1"


def test_lists_and_json_are_taken_apart(tmp_path):
    (tmp_path / "a.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod("a"), pod("b")]})
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.yml").write_text("---\n# nothing\n---\n" + yaml.safe_dump(pod("c")))
    (tmp_path / "notes.txt").write_text("not a manifest")
    assert names(manifests_world([tmp_path])) == ["a", "b", "c"]


def test_folders_of_runs_and_hidden_ones_are_passed_over(tmp_path):
    """A run is kept below the folder where it is started."""
    for folder in ("runs/first", ".github", "below"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "meta.json").write_text('{"format": 1}')
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(pod("a")))
    (tmp_path / "runs/first/journals.db").touch()
    with pytest.raises(WorldError, match=r"below/meta\.json document 1: kind: is required"):
        manifests_world([tmp_path])
    (tmp_path / "below" / "meta.json").write_text(json.dumps(pod("b")))
    assert names(manifests_world([tmp_path])) == ["a", "b"]


def test_unknown_kinds_are_listed_as_ignored(read):
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s"}, "data": {"x": 1}}
    (rejected,) = read(other, pod()).rejected
    assert rejected.rule == "ConfigMap s is ignored: objects of this kind do not affect scheduling"
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}}
    (rejected,) = read(cron, pod()).rejected
    assert rejected.rule.startswith("CronJob tick is ignored: schedules are not played")


def test_a_folder_that_is_named_by_a_dot_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "a.yaml").write_text(yaml.safe_dump(pod()))
    monkeypatch.chdir(tmp_path / "shop")
    assert manifests_world([Path()]).name == "shop"


WEB = {"matchLabels": {"app": "web"}}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}


def made(kind, version="apps/v1", **spec):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    more = {} if kind == "Service" else {"replicas": 2, "template": template}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "r"}, "spec": more | spec}


def test_services_and_controllers_are_objects_of_the_world(read):
    selector = LabelSelector((("app", "web"),))
    who = {"name": "r", "namespace": "default"}
    kinds: tuple[tuple[str, str, dict, Any], ...] = (
        ("Service", "v1", {"app": "web"}, Service),
        ("ReplicationController", "v1", {"app": "web"}, ReplicationController),
        ("ReplicaSet", "apps/v1", WEB, ReplicaSet),
        ("StatefulSet", "apps/v1", WEB, StatefulSet),
    )
    for kind, version, given, model in kinds:
        chosen = selector.match_labels if version == "v1" else selector
        world = read(made(kind, version, selector=given))
        assert world.objects == (model(uid=f"{kind.lower()}.default.r", **who, selector=chosen),)
        owners = [arrival.pods.owner for arrival in world.arrivals]
        assert owners == ([] if kind == "Service" else [f"{kind}/r"]), "one column of equal pods"
    (made_by,) = (world := read(made("Deployment", selector=WEB))).objects
    assert made_by == ReplicaSet(
        uid="deployment.default.r", name="r.1", namespace="default", selector=selector
    )
    assert [arrival.pods.owner for arrival in world.arrivals] == ["ReplicaSet/r.1"]


def test_a_pod_names_its_controller(read):
    owned = pod()
    for owner, expected in (
        (OWNER, "ReplicaSet/r"),
        (OWNER | {"controller": False}, ""),
        (OWNER | {"kind": "Job", "apiVersion": "batch/v1"}, ""),
        (OWNER | {"apiVersion": "example.com/v1"}, ""),
    ):
        owned["metadata"]["ownerReferences"] = [OWNER | {"controller": None}, owner]
        (arrival,) = read(owned).arrivals
        assert arrival.pods.owner == expected


def test_the_bundled_example_holds_what_it_promises():
    world = manifests_world([EXAMPLES])
    assert len({node.labels["topology.kubernetes.io/zone"] for node in world.nodes}) == 3
    assert sum(node.gpu_count for node in world.nodes) == 24
    assert [gang.min_count for gang in world.gangs] == [4, 6, 12]
    assert len(names(world)) == 1_000 + 3 + 22 + 8 + 6 + 2
    assert world.rejected == ()


def with_images(*names: str, size_bytes: int = 5):
    images = [{"names": [*names], "sizeBytes": size_bytes}]
    return NODE | {"status": {**NODE["status"], "images": images}}


def test_images_of_pods_count_where_a_node_has_one_of_them(read):
    first, second = container(), container()
    first["image"], second["image"] = "app", "tools:1"
    second["name"] = "more"
    asked = pod(containers=[first], initContainers=[second, first | {"name": "x"}])
    found = read(with_images("app:latest"), asked)
    assert found.nodes[0].images == packed([("app:latest", 5)])
    assert spec_of(found).images == ("app:latest", "app:latest", "tools:1")
    assert spec_of(read(with_images("app:2"), asked)).images == ()
    asked["spec"]["volumes"] = [{"name": "v", "image": {"reference": "data"}}]
    found = spec_of(read(with_images("data:latest"), asked))
    assert (len(found.images), found.image_volumes) == (3, ("data:latest",))
    found = spec_of(read(with_images("app:2"), asked))
    assert (found.images, found.image_volumes) == ((), ())
    assert spec_of(read(NODE, asked)).images == ()
