"""Inter-pod rules on a real API: pods spread, keep apart and come close as their rules demand."""

from collections import Counter
from typing import Any

import pytest

from tests.live.support.case import Case
from tests.live.support.objects import PODS, create_nodes, muster_run, nodes_of, pod, until
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
HOST = "kubernetes.io/hostname"
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
ALONE = "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."


def role(name: str) -> dict[str, Any]:
    return {"topologyKey": HOST, "labelSelector": {"matchLabels": {"role": name}}}


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    return cluster


def test_rules_between_pods_hold_on_a_real_api(servers: KubeServers, case: Case, tmp_path):
    api = servers.api
    create_nodes(api, ["node-a", "node-b", "node-c"])

    def create(name: str, **spec: Any) -> None:
        body = pod(name, **spec)
        body["metadata"]["labels"]["role"] = name.partition("-")[0]
        api.create(PODS, body).ok()

    def on(kind: str) -> list[str]:
        return [node for name, node in nodes_of(api).items() if name.startswith(kind) and node]

    apart = {"podAntiAffinity": {HARD: [role("apart")]}}
    shy = {"podAntiAffinity": {HARD: [role("plain")]}}
    near = {"podAffinity": {HARD: [role("plain")]}}
    even = {**role("even"), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    with muster_run(servers.kubeconfig, tmp_path, "-o", "json") as muster:
        # No rule looks at this pod's identity yet, and no event names it when the others arrive.
        create("plain-0")
        until("the plain pod is bound", lambda: bool(on("plain")))
        for number in range(4):
            create(f"apart-{number}", affinity=apart)
        for number in range(6):
            create(f"even-{number}", topologySpreadConstraints=[even])
        create("shy-0", affinity=shy)
        create("near-0", affinity=near)
        until("bound", lambda: [len(on(one)) for one in ("apart", "even", "near")] == [3, 6, 1])
        until("the shy one is bound", lambda: bool(on("shy")))
        (left,) = [name for name, node in nodes_of(api).items() if not node]

        def message() -> str:
            status = api.get(f"{PODS}/{left}").ok()["status"]
            return str((status.get("conditions") or [{}])[0].get("message", ""))

        until("the fourth says why", lambda: message().startswith(ALONE))
        muster.stop()
    assert len({*on("apart")}) == 3
    assert sorted(Counter(on("even")).values()) == [2, 2, 2]
    assert on("near") == on("plain") != on("shy")
    verdict = case.check(tmp_path / "run")
    assert (verdict.races, verdict.waiting) == ([], 1)
