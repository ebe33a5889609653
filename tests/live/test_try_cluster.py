"""`make cluster` starts a cluster for people and removes it when they leave."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.conftest import require_kube

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("kube")]
COMMAND = [sys.executable, "-m", "tests.support.try_cluster", "--nodes", "2"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("leaving", [signal.SIGINT, signal.SIGTERM])
def test_the_try_cluster_starts_and_stops(leaving: signal.Signals):
    require_kube()
    with subprocess.Popen(COMMAND, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        assert "A cluster of 2 nodes runs" in lines[0]
        exported = re.search(r"export KUBECONFIG=(\S+)", lines[1])
        assert exported is not None
        environ = {**os.environ, "KUBECONFIG": exported[1]}
        shown = subprocess.run(
            lines[2].split(), env=environ, capture_output=True, text=True, check=True
        )
        assert re.findall(r"node-000\d", shown.stdout) == ["node-0000", "node-0001"]
        process.send_signal(leaving)
        assert process.stdout.read() == "The cluster is gone.\n"
    assert process.returncode == 0
    assert not Path(exported[1]).parent.exists()


def test_without_servers_one_line_says_how_to_get_them(tmp_path: Path):
    environ = {**os.environ, "MUSTER_SERVERS": str(tmp_path)}
    done = subprocess.run(
        COMMAND, cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "missing: etcd, kubernetes-1.37, kwok; run 'make servers'\n"
