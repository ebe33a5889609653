"""Asks kube-scheduler's own code: drives the programs that `make servers` builds from
tests/parity/oracle, one for each release. It only carries cases and answers;
docs/explanation/parity.md says what they mean.
"""

import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import orjson

from shared.model.release import V1_35
from tests.support.required_tools import require_tool
from tests.support.server_process import servers_dir

# How many cases it may be ahead of its answers: enough that neither side ever waits long.
_AHEAD = 32
_LOG_TAIL_BYTES = 2_000
_END_TIMEOUT_S = 10.0


class OracleError(RuntimeError):
    """The program ended before it answered."""


def oracle_path(version: str = V1_35, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the program's path, built or not: the one with coverage if GOCOVERDIR names a folder
    for it.
    """
    part = "parity-cover" if environ.get("GOCOVERDIR") else "parity"
    return servers_dir() / f"{part}-{version}" / "oracle"


def install_command(path: Path) -> str:
    """Return the command that builds the program."""
    part = path.parent.name
    return f"deploy/servers/install.sh {part}" if "cover" in part else "make servers"


def require_oracle(version: str = V1_35) -> None:
    """Skip, or fail in CI, where the program is not built."""
    path = oracle_path(version)
    require_tool("parity oracle", install_command(path), found=path.is_file())


class Oracle:
    """The framework and plugins of a release of kube-scheduler, as a process that answers cases.

    It keeps nothing between cases, and ends with this process: its input is closed then.
    """

    def __init__(self, version: str = V1_35, path: Path | None = None) -> None:
        self._version = version
        self._path = path or oracle_path(version)
        self._open = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        # Whether a reader still expects answers of the process one by one, and the process that is
        # asked in the meantime.
        self._busy = False
        self._other: Oracle | None = None

    def __enter__(self) -> "Oracle":
        self._running()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the program; by the end of its input, so that it writes what it has counted."""
        if self._other is not None:
            self._other.close()
        if self._process is not None:
            self._end(self._process, at_once=self._busy)

    def _end(self, process: subprocess.Popen[bytes], *, at_once: bool) -> None:
        if at_once:
            # Before anything else: the feeder may be in the midst of writing, and hold the pipe.
            process.kill()
        try:
            process.communicate(timeout=_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        self._process, self._busy = None, False
        self._open.close()

    def ask(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to one case; {"error": ...} if kube-scheduler cannot take it."""
        [answer] = self.ask_all([case])
        return answer

    def ask_all(self, cases: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the answers in the order of the cases; the oracle works on some while you read
        others. The cases are taken from another thread.
        """
        if self._busy:
            # Another reader is reading answers at the moment, and must get no others.
            self._other = self._other or Oracle(self._version, self._path)
            yield from self._other.ask_all(cases)
            return
        process = self._running()
        self._busy = True
        feeder = _Feeder(process, cases)
        try:
            while feeder.sent_another():
                yield self._answer(process)
            if feeder.failure is not None:
                raise feeder.failure
        finally:
            if self._process is process:
                # Unread answers would be taken for those of later cases.
                if feeder.finished:
                    self._busy = False
                else:
                    self._end(process, at_once=True)
            feeder.stop()

    def _answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        if process.stdout.closed:
            raise OracleError("the oracle was ended before this answer was read")
        line = process.stdout.readline()
        if line.endswith(b"\n"):
            answer = orjson.loads(line)
            assert isinstance(answer, dict)
            return answer
        raise OracleError(
            f"the oracle ended with {process.wait()}; its last words:\n{self._tail()}"
        )

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            if not self._path.is_file():
                raise OracleError(
                    f"no {self._path}: run '{install_command(self._path)}' (needs go)"
                )
            self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
            self._open.callback(self._log.close)
            self._process = subprocess.Popen(
                [self._path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=self._environ(),
            )
        return self._process

    def _environ(self) -> dict[str, str]:
        """Return the environment with a folder for this release in GOCOVERDIR."""
        environ = dict(os.environ)
        if environ.get("GOCOVERDIR"):
            counted = Path(environ["GOCOVERDIR"], self._version)
            counted.mkdir(exist_ok=True)
            environ["GOCOVERDIR"] = str(counted)
        return environ

    def _tail(self) -> str:
        assert self._log is not None
        size = self._log.seek(0, 2)
        self._log.seek(max(0, size - _LOG_TAIL_BYTES))
        return self._log.read().decode(errors="replace").strip()


class _Feeder:
    """Writes cases to the process from a thread of its own, some ahead of their answers."""

    def __init__(
        self, process: subprocess.Popen[bytes], cases: Iterable[Mapping[str, Any]]
    ) -> None:
        self.finished = False
        self.failure: Exception | None = None
        self._process, self._cases = process, cases
        self._stopped = False
        self._may_send = threading.Semaphore(_AHEAD)
        # One True for each case on its way, then False.
        self._sent: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._feed, name="oracle-feeder", daemon=True)
        self._thread.start()

    def sent_another(self) -> bool:
        """Wait for the next case and let one more be sent; return whether its answer is due."""
        another = self._sent.get()
        self.finished = not another
        self._may_send.release()
        return another

    def stop(self) -> None:
        """Take no more cases, and wait for the thread."""
        self._stopped = True
        self._may_send.release()
        self._thread.join()

    def _feed(self) -> None:
        assert self._process.stdin is not None
        try:
            for case in self._cases:
                self._may_send.acquire()
                if self._stopped:
                    return
                line = orjson.dumps(case, option=orjson.OPT_APPEND_NEWLINE)
                self._sent.put(True)
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except BrokenPipeError:
            # The program has ended: the reader that waits for the answer learns of it.
            pass
        except Exception as error:
            self.failure = error
        finally:
            self._sent.put(False)
