"""Pods with a resource claim for one device each, on a real API server of 1.37. No controller and
no driver runs there: claims exist before their pods, and slices are written once.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from loadtest.cluster.contestants import BARE_WIDTHS, Binder, Contestant
from loadtest.cluster.load import NO_SCHEDULER, Load, node_name, pod_names
from loadtest.cluster.measure import Figures, Sizes, bill, of_each
from loadtest.cluster.throughput import bare_figures, beside_bare, bind_all, written
from muster.flood.targets.kube import each
from shared.kubernetes.client.client import ApiError
from shared.kubernetes.objects.structs import Meta
from shared.model.release import V1_37
from tests.support.kube_options import LOAD_TEST
from tests.support.kube_server import KubeServers

OPTIONS = replace(LOAD_TEST, version=V1_37)
API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
DRIVER, CLASS, DEVICES = "gpu.example.com", "gpu", 8
PODS_MAX = 2_000
OF_POD = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "NAME"}]}
"""The claim of a pod has the pod's name."""
LIMIT_S = 600.0


def devices(sizes: Sizes) -> Figures:
    """Measure from the first to the last bind. The bare limit writes the status of each claim, too,
    before its pod is bound.
    """
    sizes = replace(sizes, pods=min(sizes.pods, PODS_MAX), options=OPTIONS)
    return beside_bare(sizes, _bare, of_each(sizes, _bind))


async def _bind(servers: KubeServers, load: Load, one: Contestant, sizes: Sizes) -> Figures:
    names = pod_names(sizes.pods)
    await _create_devices(load, -(-sizes.pods // DEVICES) * 2)
    await _create_claims(load, names)
    await load.create_pods(names, one.scheduler, rules=OF_POD)
    return await bind_all(servers, load, one, names, LIMIT_S)


async def _bare(servers: KubeServers, load: Load, sizes: Sizes) -> Figures:
    await _create_devices(load, 0)
    tries = []
    for width in BARE_WIDTHS:
        pods: list[Meta] = []
        names = pod_names(sizes.pods, f"bare-{width}")
        claims = await _create_claims(load, names)
        await load.create_pods(names, NO_SCHEDULER, 0, pods.append, OF_POD)
        binder = Binder(load, sizes.nodes, width)

        async def bind(pod: Meta, claims: dict[str, Any] = claims, binder: Binder = binder) -> None:
            await _allocate(load, claims[pod.name], pod)
            await binder.bind_one(pod)

        before, first = await load.writes(), bill(servers, None)
        await each(pods, bind, width)
        tries.append((first, bill(servers, None), written(await load.writes() - before)))
    return bare_figures(tries, sizes.pods)


async def _allocate(load: Load, claim: dict[str, Any], pod: Meta) -> None:
    result = {"request": "gpu", "driver": DRIVER, "pool": node_name(0), "device": "gpu-0"}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": pod.name, "uid": pod.uid}],
    }
    path = f"{CLAIMS}/{pod.name}/status"
    answer = await load.client.request("PUT", path, json.dumps(claim).encode())
    if not answer.ok:
        raise ApiError(answer.status, answer.message())


async def _create_devices(load: Load, nodes: int) -> None:
    """Create the class, and a slice of devices for each of these nodes."""
    expression = f'device.driver == "{DRIVER}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    await _create(load, f"{API}/deviceclasses", CLASS, spec)

    async def create(number: int) -> None:
        name = node_name(number)
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        found = [{"name": f"gpu-{device}"} for device in range(DEVICES)]
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": found}
        await _create(load, f"{API}/resourceslices", name, spec)

    await each(range(nodes), create)


async def _create_claims(load: Load, names: Sequence[str]) -> dict[str, Any]:
    """Create a claim for one device of each name; return them as the server has them."""
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}
    made: dict[str, Any] = {}

    async def create(name: str) -> None:
        made[name] = await _create(load, CLAIMS, name, spec)

    await each(names, create)
    return made


async def _create(load: Load, path: str, name: str, spec: dict[str, Any]) -> Any:
    body = json.dumps({"metadata": {"name": name}, "spec": spec}).encode()
    answer = await load.client.request("POST", path, body)
    if not answer.ok:
        raise ApiError(answer.status, answer.message())
    return json.loads(answer.body)
