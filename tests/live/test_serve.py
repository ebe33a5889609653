"""`muster serve --kubeconfig`: the services in processes of their own, one killed at a time."""

import pytest

from shared.testing.kube_server import KubeServers
from tests.live.world import PODS, Running, create_nodes, nodes_of, over_full, pod, until

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
PARTS = (("ingest",), ("binding",), ("queueing", "placement", "permit", "preemption"))


def test_services_that_are_killed_lose_nothing(cluster: KubeServers, tmp_path):
    api = cluster.api
    create_nodes(api, [f"server-{number}" for number in range(20)], cpu=4)
    bus = f"sqlite:{tmp_path / 'journals.db'}"

    def serve(number: int) -> Running:
        words = ["serve", *PARTS[number], "--bus", bus, "--run-dir", str(tmp_path / "run")]
        config = ["--kubeconfig", str(cluster.kubeconfig), "--owner", f"part-{number}"]
        return Running([*words, *config], tmp_path / f"log-{number}")

    running = [serve(number) for number in range(len(PARTS))]
    try:
        for number in range(len(PARTS)):
            for place in range(60):
                api.create(PODS, pod(f"kill-{number}-{place}", cpu="50m")).ok()
                if place == 30:
                    running[number].kill()
            running[number].__exit__(None, None, None)
            running[number] = serve(number)
            until("all bound", lambda: all(nodes_of(api).values()))
        assert over_full(api) == []
    finally:
        for process in running:
            process.__exit__(None, None, None)
