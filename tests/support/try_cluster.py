"""A real cluster of processes to try things on, until Ctrl-C: `make cluster`.

Tests and benches use KubeServers itself.
"""

import signal
import sys
import threading
import time

import click

from tests.support.kube_objects import node
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import INSTALL_COMMAND, KubeServers, missing_parts


@click.command()
@click.option("--nodes", default=10, help="How many; KWOK plays their kubelets.")
@click.option("--cpu", default="8", help="Of each node.")
@click.option("--memory", default="16Gi", help="Of each node.")
@click.option("--scheduler/--no-scheduler", default=True, help="Start kube-scheduler as well.")
@click.option("--rbac/--no-rbac", default=False, help="Ask roles; otherwise everybody may do all.")
def run(nodes: int, cpu: str, memory: str, scheduler: bool, rbac: bool) -> None:
    """Start etcd, the API server, the controller-manager, KWOK and kube-scheduler; print how to
    use them; end everything and remove its data at Ctrl-C."""
    missing = missing_parts()
    if missing:
        print(f"missing: {', '.join(missing)}; run '{INSTALL_COMMAND}'", file=sys.stderr)
        sys.exit(1)
    began = time.monotonic()
    mode = "RBAC" if rbac else "AlwaysAllow"
    with KubeServers(KubeOptions(authorization_mode=mode)) as servers:
        for number in range(nodes):
            name = f"node-{number:04}"
            servers.api.create("/api/v1/nodes", node(name, cpu=cpu, memory=memory)).ok()
        servers.start_kwok()
        servers.start_controller_manager()
        if scheduler:
            servers.start_scheduler()
        print(f"A cluster of {nodes} nodes runs after {time.monotonic() - began:.1f} s.")
        print(f"  export KUBECONFIG={servers.kubeconfig}")
        print(f"  {servers.at.program('kubectl')} get nodes")
        print(f"Logs, and the audit log, are in {servers.folder}. Ctrl-C ends and removes it.")
        _wait_for_end()
    print("The cluster is gone.")


def _wait_for_end() -> None:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    sys.stdout.flush()
    ended.wait()


if __name__ == "__main__":
    run()
