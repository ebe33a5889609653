"""One real server as a child process: started, paused, killed, started again, always ended.

It knows no particular server: the caller gives the command and a check that it serves.
"""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

STOP_TIMEOUT_S = 60.0
_PORTS_FROM = 15_000
_ROOT = Path(__file__).resolve().parents[2]
_POLL_S = 0.05
_LOG_TAIL_BYTES = 2_000


def free_ports(count: int) -> list[int]:
    """Return loopback ports that are free now, and that the kernel gives to no client later. A port
    from the clients' range would be lost while its server is dead: even to a client that tries to
    reach that server, and so connects to itself.
    """
    ports: list[int] = []
    candidates = range(_PORTS_FROM, _first_client_port())
    # Chosen at random, because other processes choose at the same time.
    for port in random.sample(candidates, len(candidates)):
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError(f"no {count} free ports from {candidates.start} to {candidates.stop}")


def _first_client_port() -> int:
    """Return the first port of the range for outgoing connections."""
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text(encoding="ascii").split()[0]) if setting.exists() else 0
    # Where it is unknown, or reaches further down, there is nothing to avoid.
    return first if first > _PORTS_FROM + 1_000 else 32_768


def servers_dir() -> Path:
    """Return the folder into which `make servers` installs."""
    return Path(os.environ.get("MUSTER_SERVERS", _ROOT / ".servers"))


def watch_over(pid: int) -> subprocess.Popen[bytes]:
    """Kill `pid` if this process ends without doing so: the pipe closes, and `read` returns."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r _; kill -9 "$1"', "sh", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used so far, user and system, to the nanosecond: /proc counts in
    ticks of 10 ms, which a short measurement may not see at all.
    """
    # What clock_getcpuclockid(3) makes of a pid on Linux: 2 = the time its threads ran.
    return time.clock_gettime(~pid << 3 | 2)


class ServerProcess:
    """A server's process, its log, and a watchdog that ends it with this process."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_path: Path,
        serves: Callable[[], bool],
        *,
        start_timeout_s: float = 300.0,
    ) -> None:
        """`serves` returns whether the server answers; it must be quick and must not raise."""
        self.name = name
        self.command = list(command)
        self.log_path = log_path
        self._serves = serves
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Return whether the server was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the process id. Raises AssertionError if the server was not started."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start the server (again). Raises RuntimeError with the log's end if it does not serve."""
        if self._process is not None:
            raise RuntimeError(f"{self.name} is running")
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watchdog = watch_over(self._process.pid)
        if wait:
            self.wait_serving()

    def wait_serving(self) -> None:
        """Wait until the server serves; end and report one that ends first or is too slow."""
        deadline = time.monotonic() + self._start_timeout_s
        while time.monotonic() < deadline and self.running:
            if self._serves():
                return
            time.sleep(_POLL_S)
        ended = "did not serve in time" if self.running else "ended"
        self.kill()
        tail = self.log_path.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
        raise RuntimeError(f"{self.name} {ended}; its log {self.log_path} ends with:\n{tail}")

    def kill(self) -> None:
        """Kill -9. Idempotent."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """Shut the server down in order. Idempotent."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Stop the process (SIGSTOP): connections stay open, and nothing answers from the return
        on.
        """
        os.kill(self.pid, signal.SIGSTOP)
        # Its threads stop one by one, each when it is next scheduled.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Continue the process (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """Return the CPU time that the running process has used so far, s."""
        return cpu_seconds(self.pid)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        watchdog, self._watchdog = self._watchdog, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if watchdog is not None:
            watchdog.kill()
            watchdog.wait()
            if watchdog.stdin is not None:
                watchdog.stdin.close()
