"""The mesh as real processes: a simulated cluster and one `muster serve` for each journal.

Starts them, faults them (kill -9, SIGSTOP) and starts them again under the same owner's name, as a
StatefulSet would; always ends all of them. It does not read what they do; tests/e2e/follow.py does.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from muster.app.journals import all_journals

ROOT = Path(__file__).resolve().parents[1]
START_S = 300.0
STOP_S = 30.0
POLL_S = 0.02
COMMAND = ("-m", "muster")


class Child:
    """One process that can be started many times; its output goes to one file."""

    def __init__(
        self, log: Path, words: Sequence[str], command: Sequence[str], env: Mapping[str, str]
    ) -> None:
        """Keep the command; `start` runs it."""
        self.log = log
        self._argv = [sys.executable, *command, *words]
        self._env = os.environ | {"PYTHONPATH": str(ROOT)} | dict(env)
        # Compiling every module again takes three times as long as the rest of a start.
        self._env.pop("PYTHONDONTWRITEBYTECODE", None)
        self._process: subprocess.Popen[bytes] | None = None
        self._from = 0

    def start(self) -> None:
        """Start, or start again."""
        assert not self.runs, f"{self.log.name} runs already"
        with self.log.open("ab") as log:
            self._from = log.tell()
            self._process = subprocess.Popen(
                self._argv,
                cwd=ROOT,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def runs(self) -> bool:
        """Return whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the running process's id."""
        assert self._process is not None, f"{self.log.stem} was not started"
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Return the exit code of its last run; None before its end."""
        assert self._process is not None, f"{self.log.stem} was not started"
        return self._process.poll()

    def said(self) -> str:
        """Return its output since its last start."""
        with self.log.open("rb") as log:
            log.seek(self._from)
            return log.read().decode(errors="replace")

    def until_said(self, text: str) -> None:
        """Wait for a piece of output. Raises RuntimeError with the output when the process ends
        before it.
        """
        deadline_s = time.monotonic() + START_S
        while text not in self.said():
            if not self.runs or time.monotonic() > deadline_s:
                raise RuntimeError(f"{self.log.stem} did not say {text!r}: {self.said()[-2_000:]}")
            time.sleep(POLL_S)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to a running process."""
        assert self.runs, f"{self.log.stem} does not run: {self.said()[-2_000:]}"
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill -9 and wait for the end. Does nothing when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> int:
        """Send SIGTERM; return the exit code. Raises TimeoutExpired."""
        self.signal(signal.SIGTERM)
        assert self._process is not None
        return self._process.wait(STOP_S)


@dataclass
class ProcessMesh:
    """A cluster that plays `world` and a process for each journal over one broker. `commands`
    replaces the commands of journals' processes, `settings` are words of `--set`; `snapshot_s` 0 is
    the default of `muster serve`; `metrics` are the ports of owners that serve metrics.
    """

    folder: Path
    bus: str
    world: Sequence[str]
    placements: int = 1
    settings: Sequence[str] = ()
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    snapshot_s: int = 0
    metrics: Mapping[str, int] = field(default_factory=dict)
    services: dict[str, Child] = field(default_factory=dict)
    others: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the children; `start` runs them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.history = self.folder / "history"
        words = ["cluster", *self.world, "--listen", self._address]
        words += ["--history", str(self.history), *self._sets("cluster")]
        self.cluster = self._child("cluster", words, self.commands.get("cluster", COMMAND))
        for journal in all_journals(self.placements):
            self.services[journal] = self._service(journal, "first")

    @property
    def _address(self) -> str:
        return f"unix:{self.folder / 'cluster.sock'}"

    def _sets(self, service: str = "") -> list[str]:
        chosen = [
            text for text in self.settings if text.startswith("cluster.") == (service == "cluster")
        ]
        return [word for text in chosen for word in ("--set", text)]

    def _child(self, name: str, words: Sequence[str], command: Sequence[str]) -> Child:
        log = self.folder / f"{name.replace('/', '-')}.log"
        return Child(log, words, command, {**self.env, "MUSTER_CHILD": str(log.with_suffix(""))})

    def _service(self, journal: str, owner: str, command: Sequence[str] = ()) -> Child:
        words = ["serve", journal, "--bus", self.bus, "--cluster", self._address]
        words += ["--placements", str(self.placements), "--run-dir", str(self.folder / "run")]
        words += ["--owner", f"{owner}-{journal}", *self._sets()]
        if self.snapshot_s:
            words += ["--snapshot-seconds", str(self.snapshot_s)]
        if f"{owner}-{journal}" in self.metrics:
            words += ["--metrics-port", str(self.metrics[f"{owner}-{journal}"])]
        return self._child(
            f"{journal}-{owner}", words, command or self.commands.get(journal, COMMAND)
        )

    def start(self) -> None:
        """Start everything; return when all processes say that they serve."""
        self.cluster.start()
        for journal, child in self.services.items():
            if journal != "ingest/0":
                child.start()
        self.cluster.until_said("listening on")
        for journal, child in self.services.items():
            if journal != "ingest/0":
                child.until_said("serving")
        # The world begins with ingest's first watch, so no process is late.
        self.services["ingest/0"].start()
        self.services["ingest/0"].until_said("serving")

    def other(self, journal: str, owner: str, command: Sequence[str] = ()) -> Child:
        """Start a second process for a journal; it ends with the mesh."""
        child = self._service(journal, owner, command or COMMAND)
        self.others.append(child)
        child.start()
        return child

    def stop(self) -> dict[str, int]:
        """End everything in order, the cluster last; return the exit codes by log name."""
        running = [child for child in (*self.services.values(), *self.others) if child.runs]
        codes = {child.log.stem: child.terminate() for child in running}
        codes["cluster"] = self.cluster.terminate()
        return codes

    def close(self) -> None:
        """Kill every process that still runs, stopped ones too. Idempotent."""
        for child in (*self.services.values(), *self.others, self.cluster):
            child.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
