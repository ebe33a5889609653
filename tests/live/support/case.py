"""The part of a cluster's history that belongs to one test, and the checker's verdict on it."""

import json
import time
from pathlib import Path
from typing import Any

from tests.live.checker import journals
from tests.live.checker.audit import Post, posts
from tests.live.checker.check import Evidence, Verdict, check
from tests.support.etcd_history import EtcdHistory
from tests.support.kube_server import KubeServers


class Case:
    """Begins at its creation; `check` checks everything since."""

    def __init__(self, servers: KubeServers, history: EtcdHistory) -> None:
        self.servers, self.history = servers, history
        self.begin()

    def begin(self) -> None:
        """Check changes from now on only."""
        self.since = self.history.settle()
        self.since_s = time.time()

    def _audit(self) -> list[Any]:
        """Return the binds in the audit log."""
        lines = self.servers.at.audit_log_path.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines if b'"binding"' in line]

    def posts(self) -> list[Post]:
        """Return every bind that reached the server since the case began."""
        return [one for one in posts(self._audit()) if one.time_s >= self.since_s]

    def verdict(self, recorded: journals.Journals) -> Verdict:
        """Return the checker's verdict."""
        # Read the audit log first: all its changes are then in etcd's history.
        audit = self._audit()
        self.history.settle()
        evidence = Evidence(
            changes=self.history.changes(),
            audit=audit,
            journals=recorded,
            now_s=time.time(),
            since=self.since,
            since_s=self.since_s,
        )
        return check(evidence)

    def check(self, run: Path) -> Verdict:
        """Check a run's journals and assert that nothing is wrong."""
        verdict = self.verdict(journals.of_file(run / "journals.db"))
        assert verdict.problems == [], "\n".join(verdict.problems)
        return verdict
