"""The published role is sufficient, and every verb of it is needed.

Every verb has a scenario in which the product needs it. With the whole role all scenarios work.
Each scenario runs once more as a user without that verb: it fails, and the product names what is
missing.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any, cast

import pytest
import yaml

from shared.events.base import Event
from shared.events.observed import BudgetsSeen, GangsSeen, NodesSeen, ObjectsSeen, PodsSeen
from shared.kubernetes.client.access import missing_permissions
from shared.kubernetes.client.client import ApiError, KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.client.discovery import POD_GROUPS, WORKLOADS
from shared.kubernetes.client.kinds import HYPER_NODES, OTHER_KINDS, Kind
from shared.kubernetes.client.lease import Elector
from shared.kubernetes.cluster import KubeCluster
from shared.kubernetes.objects.groups.composite import COMPOSITES
from shared.kubernetes.objects.groups.other_schedulers import OTHER_KINDS as OTHER_GROUPS
from shared.kubernetes.objects.groups.other_schedulers import GroupKind
from shared.kubernetes.writing import events as kube_events
from shared.model.api_outcome import Answer
from shared.model.claims import Allocation, ClaimChoice, DeviceResult
from shared.model.election import Election
from shared.model.release import COMPOSITE_POD_GROUP, V1_35, V1_37, release
from shared.model.volumes import Choice
from shared.ports.cluster import (
    BindRequest,
    ClaimsRequest,
    GroupCondition,
    PodRef,
    VolumeRequest,
    Watched,
)
from tests.live.conftest import NewCluster
from tests.live.support.objects import LEASES, PATIENCE_S, PODS, ROOT, muster_run, node, pod, until
from tests.live.support.other_objects import create
from tests.live.test_releases import create_group
from tests.support.kube_credentials import MUSTER, User
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
RBAC = ROOT / "deploy" / "rbac.yaml"
VOLCANO, VOLCANO_JOB = "scheduling.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1"
GROUP_CRDS = ROOT / "tests" / "live" / "support" / "group_crds.yaml"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
ELECTION = Election("muster", retry_s=0.1)
POD_GROUP_PATH = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
GATES = ("GenericWorkload=true", "TopologyAwareWorkloadScheduling=true", "CompositePodGroup=true")
SERVED = ("scheduling.k8s.io/v1beta1=true", "scheduling.k8s.io/v1alpha3=true")
SEEN_S, UNSEEN_S, TRIES = PATIENCE_S, 1.5, 20
STORAGE = [
    kind
    for name in ("PersistentVolume", "PersistentVolumeClaim")
    for kind in OTHER_KINDS
    if kind.name == name
]
Rule = dict[str, list[str]]
numbers = count(1)
log = logging.getLogger("muster.kube")


def rules_of(text: str, kind: str) -> list[Rule]:
    """Return the role's rules, one for each verb and resource."""
    (role,) = [one for one in yaml.safe_load_all(text) if one["kind"] == kind]
    return [
        {**rule, "apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def name_of(rule: Rule) -> str:
    """Return the product's text for a permission."""
    (group,), (resource,), (verb,) = rule["apiGroups"], rule["resources"], rule["verbs"]
    return f"{verb} {resource}{'.' + group if group else ''}"


WHOLE, PART = (
    {name_of(rule): rule for rule in rules_of(RBAC.read_text(encoding="utf-8"), kind)}
    for kind in ("ClusterRole", "Role")
)
"""The rules for the whole cluster, and those for kube-system."""
RULES = WHOLE | PART
USERS = {name: User(f"without-{name.replace(' ', '-').replace('/', '-')}") for name in RULES}


@pytest.fixture(scope="module")
def servers_of(new_cluster: NewCluster) -> Callable[[str], KubeServers]:
    """Return a function from a release to its servers."""
    return cache(lambda version: with_users(new_cluster, version))


@pytest.fixture(scope="module")
def servers(servers_of: Callable[[str], KubeServers]) -> KubeServers:
    return servers_of(V1_37)


def release_of(name: str) -> str:
    """Return the release that asks for a permission: groups were parts of workloads once."""
    return V1_35 if "workloads" in name else V1_37


def with_users(new_cluster: NewCluster, version: str) -> KubeServers:
    """Start servers with a user for every verb that has all other verbs."""
    options = KubeOptions(version=version, authorization_mode="RBAC")
    if version == V1_37:
        options = replace(options, feature_gates=GATES, runtime_config=SERVED)
    servers = new_cluster(options, users=list(USERS.values()))
    servers.kubectl("apply", "-f", str(RBAC), "-f", str(GROUP_CRDS))
    servers.wait_for_crds()
    for name, user in USERS.items():
        give(servers, "ClusterRole", ROLES, user, without(name, WHOLE))
        give(servers, "Role", f"{ROLES}/namespaces/kube-system", user, without(name, PART))
    servers.api.create("/api/v1/nodes", node("node-a")).ok()
    return servers


def without(name: str, rules: dict[str, Rule]) -> list[Rule]:
    return [rule for other, rule in rules.items() if other != name]


def give(servers: KubeServers, kind: str, path: str, user: User, rules: list[Rule]) -> None:
    """Create a role and give it to a user."""
    meta = {"metadata": {"name": user.name}, "apiVersion": "rbac.authorization.k8s.io/v1"}
    role = {**meta, "kind": kind, "rules": rules}
    servers.api.create(f"{path}/{kind.lower()}s", role).ok()
    group = "rbac.authorization.k8s.io"
    binding = {
        "kind": f"{kind}Binding",
        "roleRef": {"apiGroup": group, "kind": kind, "name": user.name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user.name}],
    }
    servers.api.create(f"{path}/{kind.lower()}bindings", {**meta, **binding}).ok()


@dataclass
class World:
    """The client of a user, and the admin's."""

    servers: KubeServers
    cluster: KubeCluster

    def pod(self, **more: Any) -> PodRef:
        """Create a pending pod for our scheduler."""
        made = self.servers.api.create(PODS, pod(f"pod-{next(numbers)}", **more)).ok()["metadata"]
        return PodRef(made["uid"], "default", made["name"], int(made["resourceVersion"]))

    async def sees(self, kind: type[Event], change: Callable[[], object], seconds: float) -> bool:
        """Return whether a watch from now on reports a change."""
        listed = self.servers.api.get("/api/v1/nodes").ok()
        since = int(listed["metadata"]["resourceVersion"])
        stream = cast("AsyncGenerator[Watched]", self.cluster.watch(since))
        changed = False

        async def look() -> None:
            async with aclosing(stream):
                async for watched in stream:
                    if changed and any(isinstance(event, kind) for event in watched.events):
                        return

        looking = asyncio.create_task(look())
        await asyncio.sleep(0.5)
        changed = True
        change()
        done, _ = await asyncio.wait((looking,), timeout=seconds)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        return bool(done)


@asynccontextmanager
async def world_of(servers: KubeServers, user: User) -> AsyncIterator[World]:
    path = servers.write_kubeconfig(servers.folder / f"{user.name}.kubeconfig", user)
    cluster = KubeCluster(KubeClient(Credentials(str(path))), ["muster"])
    if servers.options.version == V1_37:
        cluster.release = release(V1_37, {COMPOSITE_POD_GROUP: True})
    await cluster.open()
    try:
        yield World(servers, cluster)
    finally:
        await cluster.close()


# ------------------------------------------------------------------------------- scenarios

Scenario = Callable[[World, float], Awaitable[bool]]


def lists(kind: str) -> Scenario:
    async def scenario(world: World, _limit_s: float) -> bool:
        return (await world.cluster.list_all(kind)).revision > 0

    return scenario


def sees(kind: type[Event], change: Callable[[World], object]) -> Scenario:
    async def scenario(world: World, limit_s: float) -> bool:
        return await world.sees(kind, lambda: change(world), limit_s)

    return scenario


def label(world: World) -> None:
    labels = {"metadata": {"labels": {"touched": str(next(numbers))}}}
    world.servers.api.request("PATCH", "/api/v1/nodes/node-a", labels).ok()


def protect(world: World) -> None:
    meta = {"metadata": {"name": f"guard-{next(numbers)}"}, "apiVersion": "policy/v1"}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "test"}}}
    world.servers.api.create(BUDGETS, {**meta, "kind": "PodDisruptionBudget", "spec": spec}).ok()


def group(world: World) -> None:
    create_group(world.servers, f"group-{next(numbers)}", 3)


def other_group(kind: GroupKind) -> Callable[[World], object]:
    meta = {"apiVersion": kind.version, "kind": "PodGroup", "spec": {"minMember": 2}}
    path = f"/apis/{kind.version}/namespaces/default/podgroups"

    def change(world: World) -> None:
        name = f"other-{next(numbers)}"
        world.servers.api.create(path, {**meta, "metadata": {"name": name}}).ok()

    return change


def composite_group(world: World) -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
        "workloadRef": {"workloadName": "work", "templateName": "template"},
    }
    meta = {"apiVersion": COMPOSITES.version, "kind": COMPOSITE_POD_GROUP, "spec": spec}
    path = f"/apis/{COMPOSITES.version}/namespaces/default/{COMPOSITES.resource}"
    name = f"composite-{next(numbers)}"
    world.servers.api.create(path, {**meta, "metadata": {"name": name}}).ok()


def other(kind: Kind) -> Callable[[World], object]:
    return lambda world: create(world.servers.api, kind, f"other-{next(numbers)}")


def hyper_node(world: World) -> None:
    name = f"hyper-node-{next(numbers)}"
    meta = {"apiVersion": f"{HYPER_NODES.group}/{HYPER_NODES.version}", "kind": HYPER_NODES.name}
    body = {**meta, "metadata": {"name": name}, "spec": {"tier": 1}}
    world.servers.api.create(HYPER_NODES.path, body).ok()


def full_name(kind: Kind) -> str:
    return f"{kind.resource}{'.' + kind.group if kind.group else ''}"


async def identity(world: World, _limit_s: float) -> bool:
    return bool(await world.cluster.identity())


async def bind(world: World, _limit_s: float) -> bool:
    ref = world.pod()
    request = BindRequest(ref.uid, "default", ref.name, "node-a", ref.revision)
    return (await world.cluster.bind([request]))[0].answer is Answer.DONE


async def read(world: World, _limit_s: float) -> bool:
    return (await world.cluster.read([world.pod()]))[0].answer is Answer.DONE


async def touch(world: World, _limit_s: float) -> bool:
    return (await world.cluster.touch([world.pod()], ["why"]))[0].answer is Answer.DONE


async def evict(world: World, _limit_s: float) -> bool:
    ref = world.pod(nodeName="node-a")
    return (await world.cluster.evict([ref]))[0] is Answer.DONE


def of_volume(world: World) -> Choice:
    """Create a free volume and a claim."""
    made = [create(world.servers.api, kind, f"other-{next(numbers)}") for kind in STORAGE]
    (volume, claim) = ((one["name"], one["uid"]) for one in made)
    return Choice("default", *claim, *volume)


async def give_claim(world: World, _limit_s: float) -> bool:
    request = VolumeRequest(of_volume(world), "node-a")
    return await world.cluster.bind_volumes([request]) == [Answer.DONE]


async def give_node(world: World, _limit_s: float) -> bool:
    whole = of_volume(world)
    choice = Choice(whole.namespace, whole.claim, whole.claim_uid)
    return await world.cluster.bind_volumes([VolumeRequest(choice, "node-a")]) == [Answer.DONE]


async def give_devices(world: World, _limit_s: float) -> bool:
    """Write a claim's devices."""
    (kind,) = (one for one in OTHER_KINDS if one.resource == "resourceclaims")
    made = create(world.servers.api, kind, f"other-{next(numbers)}")
    has = Allocation((DeviceResult("r", "d.example.com", "p", "x"),))
    choice = ClaimChoice("default", made["name"], made["uid"], int(made["resourceVersion"]), has)
    ref = world.pod()
    (found,) = await world.cluster.write_claims([ClaimsRequest(ref, (choice,))])
    return found.answer is Answer.DONE


async def show_group(world: World, limit_s: float) -> bool:
    await lists("gangs")(world, limit_s)
    name = f"group-{next(numbers)}"
    create_group(world.servers, name, 3)
    await world.cluster.show_groups([GroupCondition("default", name, "why")])
    group = world.servers.api.get(f"{POD_GROUP_PATH}/{name}").ok()
    return bool(group.get("status", {}).get("conditions"))


async def show_volcano_group(world: World, _limit_s: float) -> bool:
    name = f"group-{next(numbers)}"
    path = create_volcano_group(world, name)
    await world.cluster.show_groups([GroupCondition("default", f"{name}@volcano", "why")])
    return bool(world.servers.api.get(path).ok().get("status", {}).get("conditions"))


def create_volcano_group(world: World, name: str, **metadata: Any) -> str:
    """Create a group of Volcano; return its path."""
    group = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": name, **metadata}}
    path = f"/apis/{VOLCANO}/namespaces/default/podgroups"
    world.servers.api.create(path, {**group, "spec": {"minMember": 2}}).ok()
    return f"{path}/{name}"


async def enqueue(world: World, limit_s: float) -> bool:
    """Create a job of Volcano with its group, which a list shows."""
    api, name = world.servers.api, f"job-{next(numbers)}"
    job = {"apiVersion": VOLCANO_JOB, "kind": "Job", "metadata": {"name": name}}
    path = f"/apis/{VOLCANO_JOB}/namespaces/default/jobs"
    made = api.create(path, {**job, "spec": {"schedulerName": "muster"}}).ok()
    owner = {"apiVersion": VOLCANO_JOB, "kind": "Job", "name": name, "controller": True}
    owners = [{**owner, "uid": made["metadata"]["uid"]}]
    group = create_volcano_group(world, name, ownerReferences=owners)
    await lists("gangs")(world, limit_s)
    end_s = asyncio.get_running_loop().time() + min(limit_s, 10.0)
    while asyncio.get_running_loop().time() < end_s:
        if api.get(group).ok().get("status", {}).get("phase") == "Inqueue":
            return True
        await asyncio.sleep(0.1)
    return False


def leads(is_there: bool) -> Scenario:
    async def scenario(world: World, limit_s: float) -> bool:
        world.servers.api.request("DELETE", f"{LEASES}/muster")
        if is_there:
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
            meta, spec = {"name": "muster"}, {"holderIdentity": "us", "leaseDurationSeconds": 9}
            world.servers.api.create(LEASES, {**lease, "metadata": meta, "spec": spec}).ok()
        try:
            async with asyncio.timeout(limit_s):
                await Elector(world.cluster.client, ELECTION, "us").acquire(log.warning)
        except TimeoutError:
            return False
        return True

    return scenario


async def tell(world: World, limit_s: float) -> bool:
    return await _told(world, 1, limit_s)


async def tell_again(world: World, limit_s: float) -> bool:
    return await _told(world, 2, limit_s)


async def _told(world: World, times: int, limit_s: float) -> bool:
    events, ref = world.cluster.events, world.pod()
    for time in range(1, times + 1):
        events.failed(ref, "why")
        end_s = asyncio.get_running_loop().time() + limit_s
        while events.counts.sent < time:
            if events.counts.failed or asyncio.get_running_loop().time() > end_s:
                return False
            await asyncio.sleep(0.02)
    return True


SCENARIOS: dict[str, Scenario] = {
    "list pods": lists("pods"),
    "list nodes": lists("nodes"),
    "list poddisruptionbudgets.policy": lists("budgets"),
    "list workloads.scheduling.k8s.io": lists("gangs"),
    "list podgroups.scheduling.k8s.io": lists("gangs"),
    "watch pods": sees(PodsSeen, World.pod),
    "watch nodes": sees(NodesSeen, label),
    "watch poddisruptionbudgets.policy": sees(BudgetsSeen, protect),
    "watch workloads.scheduling.k8s.io": sees(GangsSeen, group),
    "watch podgroups.scheduling.k8s.io": sees(GangsSeen, group),
    f"list {COMPOSITES.source}": lists("gangs"),
    f"watch {COMPOSITES.source}": sees(GangsSeen, composite_group),
    **{f"list {kind.source}": lists("gangs") for kind in OTHER_GROUPS},
    **{f"watch {kind.source}": sees(GangsSeen, other_group(kind)) for kind in OTHER_GROUPS},
    "get podgroups.scheduling.volcano.sh": show_volcano_group,
    "patch podgroups/status.scheduling.volcano.sh": show_volcano_group,
    "get jobs.batch.volcano.sh": enqueue,
    **{f"list {full_name(kind)}": lists("objects") for kind in OTHER_KINDS},
    **{f"watch {full_name(kind)}": sees(ObjectsSeen, other(kind)) for kind in OTHER_KINDS},
    "list hypernodes.topology.volcano.sh": lists("objects"),
    "watch hypernodes.topology.volcano.sh": sees(ObjectsSeen, hyper_node),
    "get namespaces": identity,
    "get pods": read,
    "delete pods": evict,
    "create pods/binding": bind,
    "patch pods/status": touch,
    **{f"{verb} persistentvolumes": give_claim for verb in ("get", "patch")},
    **{f"{verb} persistentvolumeclaims": give_node for verb in ("get", "patch")},
    **dict.fromkeys(
        (
            *("get resourceclaims.resource.k8s.io", "update resourceclaims.resource.k8s.io"),
            "update resourceclaims/status.resource.k8s.io",
            "update resourceclaims/binding.resource.k8s.io",
        ),
        give_devices,
    ),
    "get podgroups.scheduling.k8s.io": show_group,
    "patch podgroups/status.scheduling.k8s.io": show_group,
    "create leases.coordination.k8s.io": leads(is_there=False),
    "get leases.coordination.k8s.io": leads(is_there=True),
    "update leases.coordination.k8s.io": leads(is_there=True),
    "create events.events.k8s.io": tell,
    "patch events.events.k8s.io": tell_again,
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Series of events are written with every repetition."""
    monkeypatch.setattr(kube_events, "SERIES_S", 0.0)


async def missing(world: World) -> list[str]:
    is_old = world.servers.options.version == V1_35
    groups = WORKLOADS if is_old else POD_GROUPS
    others = OTHER_GROUPS if is_old else (*OTHER_GROUPS, COMPOSITES)
    return await missing_permissions(
        world.cluster.client, groups, ELECTION, other_groups=others, hyper_nodes=True
    )


def test_every_verb_has_its_scenario():
    assert set(SCENARIOS) == set(RULES)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_with_the_whole_role_it_works(servers_of: Callable[[str], KubeServers], name: str):
    async with world_of(servers_of(release_of(name)), MUSTER) as world:
        assert await SCENARIOS[name](world, SEEN_S)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_role_without_one_verb_fails_and_names_it(
    servers_of: Callable[[str], KubeServers], name: str, caplog
):
    verb, _, resource = name.partition(" ")
    words = f'cannot {verb} resource "{resource.partition(".")[0]}"'
    if resource.startswith("resourceclaims/binding"):  # which admission of the status asks for
        words = f'requires resource="resourceclaims/binding", verb="{verb}"'
    said = ""
    servers = servers_of(release_of(name))
    async with world_of(servers, USERS[name]) as world:
        assert await missing(world) == [name]
        with caplog.at_level(logging.INFO, logger="muster.kube"):
            # On a slow machine the server may not have answered when the first try is over.
            for _ in range(TRIES):
                try:
                    assert not await SCENARIOS[name](world, UNSEEN_S)
                except ApiError as error:
                    said = str(error)
                if words in said + caplog.text:
                    break
    assert words in said + caplog.text


async def test_the_whole_role_lacks_nothing(servers: KubeServers):
    async with world_of(servers, MUSTER) as world:
        assert await missing(world) == []


@pytest.mark.parametrize("name", ["get namespaces", "update leases.coordination.k8s.io"])
def test_a_run_does_not_start_without_a_role(servers: KubeServers, name: str, tmp_path):
    path = servers.write_kubeconfig(tmp_path / "kubeconfig", USERS[name])
    with muster_run(path, tmp_path) as muster:
        until("it ends", lambda: muster.process.poll() is not None)
        assert muster.process.returncode == 1
        assert f"the cluster does not allow us to {name}" in muster.said()
