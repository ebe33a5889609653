"""A real Prometheus for tests: it scrapes addresses, evaluates rules, and answers queries."""

import http.client
import json
import shutil
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import urlencode

import yaml

from tests.support.required_tools import require_tool
from tests.support.server_process import ServerProcess, free_ports, servers_dir

INSTALL_COMMAND = "deploy/servers/install.sh prometheus"
SCRAPE_EVERY = "500ms"
START_TIMEOUT_S = 60.0
ANSWER_S = 10.0


class Prometheus:
    """One server on loopback. A context manager. Every call blocks."""

    def __init__(self, targets: Sequence[str], rules: Sequence[Path] = ()) -> None:
        """Scrape these addresses (HOST:PORT) as job `muster`."""
        program = servers_dir() / "prometheus" / "prometheus"
        require_tool("prometheus", INSTALL_COMMAND, found=program.is_file())
        self.folder = folder = Path(tempfile.mkdtemp(prefix="muster-prometheus-"))
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        config = {
            "global": {"scrape_interval": SCRAPE_EVERY, "evaluation_interval": SCRAPE_EVERY},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {"job_name": "muster", "static_configs": [{"targets": list(targets)}]}
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
        command = [str(program), f"--config.file={folder / 'prometheus.yml'}"]
        command += [f"--storage.tsdb.path={folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
        self._server = ServerProcess(
            "prometheus",
            command,
            folder / "log",
            self._serves,
            start_timeout_s=START_TIMEOUT_S,
        )

    def __enter__(self) -> Self:
        try:
            self._server.start()
        except RuntimeError:
            shutil.rmtree(self.folder)
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.kill()
        shutil.rmtree(self.folder)

    def _serves(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=ANSWER_S) as answer:
                return bool(answer.status == http.client.OK)
        except (URLError, OSError):
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer. Raises HTTPError for a query that does not parse."""
        url = f"{self.url}/api/v1/{path}?{urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an expression now."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def value(self, expression: str) -> float | None:
        """Return the one value of an expression; None: there is none yet."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None
