"""One test's part of a cluster's history, and the checker's verdict on it."""

import json
import time
from pathlib import Path

from shared.testing.etcd_history import EtcdHistory
from shared.testing.kube_server import KubeServers
from tests.live.checker import journals
from tests.live.checker.check import Evidence, Verdict, check


class Case:
    """Begins where it is made; `check` judges all that happened since."""

    def __init__(self, servers: KubeServers, history: EtcdHistory) -> None:
        self.servers, self.history = servers, history
        self.since = history.settle()

    def verdict(self, recorded: journals.Journals) -> Verdict:
        """What the checker finds."""
        # The audit log is first: whatever it tells of is in etcd's history then.
        audit = self.servers.at.audit_log_path.read_bytes().split(b"\n")[:-1]
        self.history.settle()
        evidence = Evidence(
            changes=self.history.changes(),
            audit=[json.loads(line) for line in audit if b'"binding"' in line],
            journals=recorded,
            now_s=time.time(),
            since=self.since,
        )
        return check(evidence)

    def check(self, run: Path) -> Verdict:
        """The same of a run's own journals, with nothing wrong."""
        verdict = self.verdict(journals.of_file(run / "journals.db"))
        assert verdict.problems == []
        return verdict
