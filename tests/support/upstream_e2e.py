"""Kubernetes' own tests of scheduling, with Muster in kube-scheduler's place: `make e2e`.

The servers are real, KWOK plays the kubelets, and Muster schedules the pods of default-scheduler.
docs/reference/upstream-tests.md names the tests that need more than that.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from shared.model.release import V1_37
from tests.support.kube_objects import node
from tests.support.kube_options import CONTROLLERS, KubeOptions
from tests.support.kube_server import INSTALL_COMMAND, KubeServers, missing_parts
from tests.support.server_process import ServerProcess, servers_dir

NODES = 4
LOGS = Path("runs/e2e")
LOG = LOGS / "e2e.log"
FOCUS = r"\[sig-scheduling\]"
SKIPPED = (
    "validates pod overhead is considered",
    "preempt expectedly with the async preemption",
)
"""What cannot run here, as regular expressions; see the page."""
MORE_CONTROLLERS = (
    "root-ca-certificate-publisher-controller",
    "podgroup-protection-controller",
)


@click.command()
@click.option("--focus", help="Tests whose names match; none: those of scheduling, as on the page.")
def run(focus: str | None) -> None:
    """Run the tests; the exit code is theirs. Logs and a JUnit report are in runs/e2e."""
    program = servers_dir() / f"e2e-{V1_37}" / "e2e.test"
    missing = missing_parts() + ([] if program.is_file() else ["e2e.test"])
    if missing:
        print(f"missing: {', '.join(missing)}; run '{INSTALL_COMMAND}'", file=sys.stderr)
        sys.exit(1)
    LOGS.mkdir(parents=True, exist_ok=True)
    with KubeServers(KubeOptions(audit_policy=None)) as servers:
        for number in range(NODES):
            servers.api.create("/api/v1/nodes", _node(number)).ok()
        servers.start_kwok()
        servers.start_controller_manager((*CONTROLLERS, *MORE_CONTROLLERS))
        muster = _muster(servers)
        for number in range(NODES):
            servers.api.create("/api/v1/namespaces/kube-system/pods", _system_pod(number)).ok()
        command = [
            str(program),
            "--provider=skeleton",
            f"--kubeconfig={servers.kubeconfig}",
            "--minStartupPods=0",
            f"--report-dir={LOGS}",
            f"--ginkgo.focus={focus or FOCUS}",
            *(f"--ginkgo.skip={one}" for one in ([] if focus else SKIPPED)),
            "--ginkgo.v",
            "--ginkgo.no-color",
            "--ginkgo.timeout=2h",
        ]
        print(f"the tests run, some of them for minutes; see {LOG}", flush=True)
        with LOG.open("wb") as log:
            done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
        muster.kill()
    for line in LOG.read_text(errors="replace").splitlines():
        if line.startswith(("Ran ", "  [FAIL]", "SUCCESS!", "FAIL!")):
            print(line.strip())
    sys.exit(done.returncode)


def _node(number: int) -> dict[str, Any]:
    labels = {"topology.kubernetes.io/zone": f"zone-{number % 2}"}
    found = node(f"node-{number}", labels=labels)
    for amounts in (found["status"]["capacity"], found["status"]["allocatable"]):
        amounts["ephemeral-storage"] = "100Gi"
    found["status"]["addresses"] = [
        {"type": "InternalIP", "address": f"10.0.1.{number + 1}"},
        {"type": "Hostname", "address": f"node-{number}"},
    ]
    return found


def _system_pod(number: int) -> dict[str, Any]:
    """Return a pod with the names for which most tests wait a minute on each node."""
    name = f"kube-proxy-fluentd-elasticsearch-node-problem-detector-{number}"
    host = {"kubernetes.io/hostname": f"node-{number}"}
    spec = {"nodeSelector": host, "containers": [{"name": "main", "image": "pause"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _muster(servers: KubeServers) -> ServerProcess:
    """Start Muster as the scheduler named default-scheduler."""
    command = [sys.executable, "-m", "muster", "run", "--kubeconfig", str(servers.kubeconfig)]
    command += ["--scheduler-name", "default-scheduler", "--run-dir", str(servers.folder / "run")]
    found = ServerProcess("muster", command, LOGS / "muster.log", lambda: True)
    found.start()
    return found


if __name__ == "__main__":
    run()
