"""Inter-pod rules of a live API, also of pods that Muster could not schedule itself."""

from collections.abc import Callable

from shared.events.observed import PodsSeen
from shared.kubernetes.cluster import KubeCluster
from shared.model.objects import PodTerm, Requirement, SpreadConstraint
from shared.model.volumes import GCE, PORTWORX, ClaimUse, Disk
from shared.scheduling.api.custom.plugin import Plugin
from tests.support.custom_plugins import known
from tests.unit.kubernetes.fake_api import FakeApi

CLAIM = [{"name": "gpu", "resourceClaimName": "c"}]
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
AWAY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
IS_DB = Requirement("app", "In", ("db",))


async def test_rules_between_pods_are_read(cluster: KubeCluster, api: FakeApi):
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    api.pod("away", affinity=AWAY)
    api.pod("even", topologySpreadConstraints=[spread])
    # It cannot wait for us, but while it runs others heed what it wants.
    api.pod("runs", affinity=AWAY, resourceClaims=CLAIM, nodeName="node-0")
    odd = {"podAntiAffinity": {"odd": 1}}
    api.pod("odd", affinity=odd, resourceClaims=CLAIM, nodeName="node-0")
    listed = await cluster.list_all("pods")
    seen = {event.names: event.spec for event in listed.events if isinstance(event, PodsSeen)}
    away = (PodTerm("zone", (IS_DB,)),)
    assert seen["away"].pod_anti_affinity == seen["runs"].pod_anti_affinity == away
    assert seen["even"].spread == (SpreadConstraint("zone", 1),)
    assert not seen["odd"].has_rules
    assert seen["odd"].request("cpu") == 100


async def test_images_of_pods_are_read(cluster: KubeCluster, api: FakeApi):
    mounted = {"name": "v", "image": {"reference": "registry.example:5000/data"}}
    api.pod("a", volumes=[mounted, {"name": "e", "emptyDir": {}}])["spec"]["containers"][0].update(
        image="app"
    )
    (seen,) = (one for one in (await cluster.list_all("pods")).events if isinstance(one, PodsSeen))
    assert seen.spec.images == ("app:latest",)
    assert seen.spec.image_volumes == ("registry.example:5000/data:latest",)


async def test_volumes_of_pods_are_read(cluster: KubeCluster, api: FakeApi):
    token: dict[str, object] = {"projected": {}}
    bound = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    own = {"name": "own", "ephemeral": {"volumeClaimTemplate": {}}}
    for name in ("a", "b"):
        api.pod(name, volumes=[bound, {"name": f"kube-api-access-{name}", **token}])
        api.pod(f"own-{name}", volumes=[own])
    disk = {"name": "d", "gcePersistentDisk": {"pdName": "d", "readOnly": True}}
    api.pod("old", volumes=[{"name": "d", "portworxVolume": {"volumeID": "d"}}])
    # It cannot wait for us, but while it runs it has its disk.
    api.pod("runs", volumes=[disk], resourceClaims=CLAIM, nodeName="node-0")
    listed = await cluster.list_all("pods")
    seen = {event.names: event for event in listed.events if isinstance(event, PodsSeen)}
    assert seen["a\nb"].spec.volumes == (ClaimUse("c"),)
    for name in ("own-a", "own-b"):
        owner = seen[name].uids
        assert seen[name].spec.volumes == (ClaimUse(f"{name}-own", name, owner),)
    assert seen["old"].spec.volumes == (Disk(PORTWORX, "d"),)
    assert seen["runs"].spec.volumes == (Disk(GCE, "d", read_only=True),)


async def test_pods_that_were_resized_count_with_what_they_have(cluster: KubeCluster, api: FakeApi):
    def runs(name: str, has: str, granted: str = "", **more: object) -> None:
        spec = api.pod(name, nodeName="node-0")["spec"]
        asked = spec["containers"][0]["resources"]["requests"]
        one = {"name": "c", "resources": {"requests": asked | {"cpu": has}}, "ready": True}
        if granted:
            one["allocatedResources"] = {"cpu": granted}
        api.put("pods", name, status={"phase": "Running", "containerStatuses": [one], **more})

    api.pod("told", nodeName="node-0")
    runs("same", "100m", "100m")
    runs("more", "250m", "100m")
    runs("soon", "100m", "300m")
    never = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    runs("never", "50m", "50m", conditions=[{"type": "Ready", "status": "True"}, *never])
    listed = await cluster.list_all("pods")
    seen = {event.names: event for event in listed.events if isinstance(event, PodsSeen)}
    amounts = {names: event.spec.request("cpu") for names, event in seen.items()}
    assert amounts == {"told\nsame": 100, "more": 250, "soon": 300, "never": 50}


async def test_keys_of_labels_are_read_with_the_labels(cluster: KubeCluster, api: FakeApi):
    """Servers before 1.34 leave them to the scheduler."""
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spread |= {"labelSelector": {}, "matchLabelKeys": ["hash"]}
    for name in "ab":
        made = api.pod(name, topologySpreadConstraints=[spread])
        labels = {"metadata": {**made["metadata"], "labels": {"hash": name}}}
        api.put("pods", name, **labels)
    listed = await cluster.list_all("pods")
    seen = {event.names: event.spec for event in listed.events if isinstance(event, PodsSeen)}
    selectors = {name: spec.spread[0].selector for name, spec in seen.items()}
    assert selectors == {name: (Requirement("hash", "In", (name,)),) for name in "ab"}


async def test_metadata_that_users_plugins_read_is_part_of_the_spec(
    new_cluster: Callable[..., KubeCluster], api: FakeApi
):
    class Reads(Plugin):
        """Nothing but what it reads matters here."""

        reads = ("annotations.a/b", "labels.tier", "namespace", "requests.cpu")

    with known(Reads):
        cluster = new_cluster()
        for name, more in (("plain", {}), ("shown", {"annotations": {"a/b": "1", "c": "2"}})):
            made = api.pod(name)
            labels = {"labels": {"tier": "gold", "app": name}}
            api.put("pods", name, metadata={**made["metadata"], **labels, **more})
        listed = await cluster.list_all("pods")
    seen = {event.names: event.spec for event in listed.events if isinstance(event, PodsSeen)}
    rest = (("labels.tier", "gold"), ("namespace", "default"))
    assert seen["plain"].shown == rest
    assert seen["shown"].shown == (("annotations.a/b", "1"), *rest)
