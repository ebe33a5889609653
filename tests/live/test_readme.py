"""The README's commands for a real cluster work as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.support.objects import PODS, ROOT, Running, create_nodes, nodes_of, pod, until
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
REPLICAS = 10


def commands() -> list[str]:
    """Return the shell lines of a section of the README, in order, without comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## On a real cluster")[2].partition("\n## ")[0]
    blocks = "\n".join(re.findall(r"```\n(.*?)```", section, flags=re.DOTALL))
    lines = blocks.replace("\\\n", " ").splitlines()
    return [line.partition("  #")[0].strip() for line in lines]


def command(begins: str) -> str:
    (found,) = [line for line in commands() if line.startswith(begins)]
    return found


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    create_nodes(cluster.api, ["node-a", "node-b"])
    cluster.start_controller_manager()
    return cluster


@pytest.fixture
def shell(servers: KubeServers, tmp_path: Path):
    """Run a line as a user whose kubeconfig is in kubectl's default place."""
    home = tmp_path / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_bytes(servers.kubeconfig.read_bytes())
    programs = Path(servers.at.program("kubectl")).parent
    environ = {**os.environ, "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}

    def type_(line: str) -> str:
        line = line.replace(".venv/bin/muster", f"{sys.executable} -m muster")
        done = subprocess.run(
            ["bash", "-c", line], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout

    return type_


def start(servers: KubeServers, tmp_path: Path, line: str) -> Running:
    """Start the README's `muster run` with the test's kubeconfig and run directory."""
    words = line.replace("~/.kube/config", str(servers.kubeconfig)).split()[1:]
    return Running([*words, "--run-dir", str(tmp_path / "run")], tmp_path / "log")


def test_readme_commands_work_beside_kube_scheduler(servers: KubeServers, shell, tmp_path: Path):
    api = servers.api
    shell(command("kubectl apply -f deploy/rbac.yaml"))
    with start(servers, tmp_path, command(".venv/bin/muster run")) as muster:
        shell(command("kubectl create deployment"))
        # Not before all exist: the first few may have nodes while others are being created.
        until("all have nodes", lambda: sum(map(bool, nodes_of(api).values())) == REPLICAS)
        # Events come in their own time.
        described = command("kubectl describe pod")
        until("described", lambda: shell(described).count("Successfully assigned") == REPLICAS)
        name = next(iter(nodes_of(api)))
        why = re.sub(r"pod/\S+", f"pod/{name}", command(".venv/bin/muster why"))
        assert f"pod default/{name}: bound on " in shell(f"{why} --run-dir {tmp_path / 'run'}")
        muster.stop()


def test_readme_commands_work_in_place_of_kube_scheduler(servers: KubeServers, tmp_path: Path):
    option = "--scheduler-name default-scheduler"
    assert option in (ROOT / "README.md").read_text(encoding="utf-8")
    servers.api.create(PODS, pod("ordinary", scheduler="default-scheduler")).ok()
    with start(servers, tmp_path, f"{command('.venv/bin/muster run')} {option}") as muster:
        until("it has a node", lambda: bool(nodes_of(servers.api)["ordinary"]))
        muster.stop()
