"""A server's process: known to serve, reported when it does not, and never left behind."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kube_objects import eventually
from tests.support.server_process import ServerProcess, free_ports

STARTS_AND_DIES = """
import os, signal, sys
from pathlib import Path
from tests.support.server_process import ServerProcess
server = ServerProcess("sleep", ["sleep", "60"], Path(sys.argv[1]), lambda: True)
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

BURNS_IN_A_THREAD = """
import pathlib, sys, threading, time
def burn():
    while time.thread_time() < 0.2: pass
thread = threading.Thread(target=burn)
thread.start()
thread.join()
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""


def sleeper(tmp_path: Path, **settings) -> ServerProcess:
    return ServerProcess("sleep", ["sleep", "60"], tmp_path / "log", lambda: True, **settings)


def ended(pid: int) -> bool:
    """Return whether the process has ended; a zombie counts as ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_a_server_can_be_ended_and_started_again(tmp_path: Path, how: str):
    server = sleeper(tmp_path)
    server.start()
    first = server.pid
    getattr(server, how)()
    assert not server.running
    assert ended(first)
    server.start()
    assert server.running
    assert server.pid != first
    server.kill()
    server.kill()


def test_a_server_ends_with_a_killed_parent(tmp_path: Path):
    command = [sys.executable, "-c", STARTS_AND_DIES, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path.cwd())
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    eventually(lambda: ended(pid), "the watchdog has ended it")


def test_a_server_that_ends_instead_of_serving_is_reported_with_its_log(tmp_path: Path):
    command = ["sh", "-c", "echo the port is taken; exit 1"]
    server = ServerProcess("etcd", command, tmp_path / "log", lambda: False)
    with pytest.raises(RuntimeError, match=r"(?s)etcd ended; its log .*the port is taken"):
        server.start()
    assert not server.running


def test_a_server_that_never_serves_is_ended_and_reported(tmp_path: Path):
    command = ["sh", "-c", "echo thinking; exec sleep 60"]
    server = ServerProcess("etcd", command, tmp_path / "log", lambda: False, start_timeout_s=0.3)
    with pytest.raises(RuntimeError, match=r"(?s)etcd did not serve in time; .*thinking"):
        server.start()
    assert not server.running


def test_a_paused_server_can_be_resumed(tmp_path: Path):
    server = sleeper(tmp_path)
    server.start()
    state = Path(f"/proc/{server.pid}/stat")

    def letter() -> str:
        return state.read_text(encoding="ascii").rpartition(")")[2].split()[0]

    server.pause()
    eventually(lambda: letter() == "T", "it stands still")
    server.resume()
    eventually(lambda: letter() == "S", "it goes on")
    server.kill()


def test_cpu_time_counts_less_than_a_tick_and_threads_that_ended(tmp_path: Path):
    server = sleeper(tmp_path)
    server.start()
    assert 0.0 < server.cpu_seconds() < 0.1
    server.kill()
    done = tmp_path / "done"
    command = [sys.executable, "-c", BURNS_IN_A_THREAD, str(done)]
    server = ServerProcess("burner", command, tmp_path / "log", done.exists)
    server.start()
    assert 0.2 <= server.cpu_seconds() < 2.0
    server.kill()


def test_a_second_start_is_refused(tmp_path: Path):
    server = sleeper(tmp_path)
    server.start()
    with pytest.raises(RuntimeError, match="sleep is running"):
        server.start()
    server.kill()
    with pytest.raises(RuntimeError, match="sleep is not running"):
        server.pause()


def test_ports_are_free_and_no_client_gets_them():
    ports = free_ports(50)
    assert len(set(ports)) == 50
    for port in ports:
        with socket.socket() as listener, socket.socket() as client:
            listener.bind(("127.0.0.1", port))
            client.bind(("127.0.0.1", 0))
            assert client.getsockname()[1] > max(ports)


def test_a_taken_port_is_not_given(monkeypatch: pytest.MonkeyPatch):
    (first,) = free_ports(1)
    monkeypatch.setattr("random.sample", lambda candidates, _: [first, first + 1, first + 2])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert first not in free_ports(1)
    with pytest.raises(RuntimeError, match="no 9 free ports"):
        free_ports(9)
