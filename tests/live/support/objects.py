"""Nodes and pods of the live tests, and their state on the API server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from tests.support.builders import make_node, make_pod
from tests.support.kube_api import KubeApi

PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
SETTLE_S = 1.0
STOP_S = 300.0
END_S = 10.0
PATIENCE_S = 300.0
"""A limit in seconds for things that must happen however slow the machine is. Promised times are
checked where they are promised.
"""
ROOT = Path(__file__).parents[3]


def node(name: str, cpu: int = 8, pods: int = 110) -> dict[str, Any]:
    """Return a Ready node without a kubelet."""
    return make_node(name).hostname().capacity(str(cpu), "64Gi", str(pods)).ready().obj()


def pod(name: str, cpu: str = "100m", scheduler: str = "muster", **spec: Any) -> dict[str, Any]:
    """Return a pod that requests only cpu."""
    builder = make_pod(name).labels(app="test").requests(cpu=cpu)
    return builder.spec(schedulerName=scheduler, **spec).obj()


def create_nodes(api: KubeApi, names: Iterable[str], cpu: int = 8) -> None:
    for name in names:
        api.create("/api/v1/nodes", node(name, cpu)).ok()


def nodes_of(api: KubeApi) -> dict[str, str]:
    """Return pod -> node, empty while it has none."""
    return {
        found["metadata"]["name"]: found["spec"].get("nodeName", "") for found in api.items(PODS)
    }


def delete_pods(api: KubeApi) -> None:
    """Delete all pods at once."""
    api.request("DELETE", f"{PODS}?gracePeriodSeconds=0").ok()


LOOP_ADDS, LOOP_MS, LOOPS = 100_000, 8.0, 10


def here(limit_s: float) -> float:
    """Return a quick machine's time limit, lengthened by how slow or busy this machine is, s."""
    began_s = time.perf_counter()
    for _ in range(LOOPS):
        total = 0
        for number in range(LOOP_ADDS):
            total += number
    found_ms = (time.perf_counter() - began_s) * 1000 / LOOPS
    return limit_s * max(1.0, found_ms / LOOP_MS)


def until(what: str, holds: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
    """Poll until the condition holds."""
    end_s = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end_s, f"not within {limit_s:.0f} s: {what}"
        time.sleep(0.1)


class Running:
    """A `muster` process; the context's end kills what is left of it."""

    def __init__(self, arguments: Sequence[str], log: Path, module: str = "muster") -> None:
        self.log = log
        self._file = log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self._file,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_more: object) -> None:
        """End the process; if all went well, so that it gives its Lease back to the next one."""
        if error is None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=END_S)
        self.kill()
        self._file.close()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def stop(self) -> str:
        """Ctrl-C; the standard output of a clean end. The API shows a bind before its outcome is
        in the journals: on a slow machine that is long enough to end in between.
        """
        time.sleep(SETTLE_S)
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=STOP_S)
        assert self.process.returncode == 0, self.said()
        return out

    def kill(self) -> None:
        """Kill the process without a warning."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def said(self) -> str:
        """Return the standard error output so far."""
        return self.log.read_text(encoding="utf-8")


def muster_run(kubeconfig: Path, folder: Path, *more: str) -> Running:
    """Start `muster run` on a cluster; its run directory and log are in the folder."""
    words = ["run", "--kubeconfig", str(kubeconfig), "--run-dir", str(folder / "run"), *more]
    return Running(words, folder / "log")


def result_of(out: str) -> dict[str, Any]:
    """Return the last state of a live run, decoded."""
    found = json.loads(out.splitlines()[-1])
    assert isinstance(found, dict)
    return found
