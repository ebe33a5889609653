"""A real Kubernetes control plane for tests and benches, as processes on loopback.

etcd and the API server always; the controller-manager, kube-scheduler and KWOK (which plays the
kubelets) on demand. The programs come from `make servers`. Every call blocks; beside an event loop
use asyncio.to_thread. One member of each: it says nothing about a control plane's own failover.
"""

import http
import http.client
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from shared.model.release import V1_37
from tests.support import kube_credentials as credentials
from tests.support import kube_options as commands
from tests.support.kube_api import TIMEOUT_S, KubeApi
from tests.support.kube_credentials import ADMIN, User
from tests.support.kube_options import CONTROLLERS, PORT_NAMES, KubeOptions, Layout
from tests.support.server_process import ServerProcess, free_ports, servers_dir

INSTALL_COMMAND = "make servers"
KUBECTL_TIMEOUT_S = 300.0
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PROBE_TIMEOUT_S = 2.0


def missing_parts(version: str = V1_37) -> list[str]:
    """Return the missing programs that a control plane needs; empty: it can be started."""
    built = servers_dir()
    kubernetes = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    needed = {
        "etcd": ("etcd",),
        f"kubernetes-{version}": kubernetes,
        "kwok": ("kwok", "stages.yaml"),
    }
    missing = [
        part
        for part, names in needed.items()
        if not all((built / part / name).is_file() for name in names)
    ]
    return missing + ([] if shutil.which("openssl") else ["openssl"])


class KubeServers:
    """One cluster: its own ports, folder and certificates. A context manager.

    Servers end with this process even when that is killed. They keep ports and data over a
    `kill`, `terminate` and `start` of any of them.
    """

    def __init__(self, options: KubeOptions | None = None, *, users: Sequence[User] = ()) -> None:
        """`users` are known by their tokens, as the admin is; see User."""
        self.options = options or KubeOptions()
        self.users = credentials.all_users(users)
        self.folder = Path(tempfile.mkdtemp(prefix="muster-kube-"))
        ports = dict(zip(PORT_NAMES, free_ports(len(PORT_NAMES)), strict=True))
        self.at = Layout(servers_dir(), self.folder, ports, self.options.version)
        self._servers: dict[str, ServerProcess] = {}
        self._api: KubeApi | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The API server's https://127.0.0.1:PORT."""
        return self.at.url

    @property
    def kubeconfig(self) -> Path:
        """The path of the admin's kubeconfig."""
        return self.folder / "admin.kubeconfig"

    @property
    def logs(self) -> dict[str, Path]:
        """The log of every server that was started."""
        return {name: server.log_path for name, server in self._servers.items()}

    @property
    def etcd(self) -> ServerProcess:
        """The etcd process, which a test may kill, pause and start again while the API
        server runs.
        """
        return self._servers["etcd"]

    @property
    def api_server(self) -> ServerProcess:
        """The API server's process, which a test may kill, pause and start again on its port."""
        return self._servers["kube-apiserver"]

    def server(self, name: str) -> ServerProcess:
        """Return a started server by its program's name."""
        return self._servers[name]

    @property
    def api(self) -> KubeApi:
        """Return a plain client with the admin's token; not for several threads at once."""
        if self._api is None:
            self._api = self.client(ADMIN)
        return self._api

    def client(self, user: User, *, timeout_s: float = TIMEOUT_S) -> KubeApi:
        """Return a plain client of this user; the caller closes it."""
        tls = credentials.verifying(self.at.ca_path)
        return KubeApi(self.url, user.token, tls, timeout_s=timeout_s)

    def start(self) -> None:
        """Start etcd and the API server; return when it is ready. Raises RuntimeError with the
        log's end.
        """
        try:
            missing = missing_parts(self.options.version)
            if missing:
                raise RuntimeError(f"no {', '.join(missing)}: run '{INSTALL_COMMAND}' (needs go)")
            self._prepare()
            etcd = commands.etcd_command(self.at, self.options)
            self._start("etcd", etcd, f"{self.at.etcd_url}/readyz")
            self._start("kube-apiserver", self._api_server_command(), f"{self.url}/readyz")
        except BaseException:
            self.stop()
            raise

    def _prepare(self) -> None:
        credentials.make_certificates(self.at.pki)
        credentials.write_tokens(self.folder / "tokens.csv", self.users)
        self.write_kubeconfig(self.kubeconfig, ADMIN)
        if self.options.audit_policy is not None:
            policy = self.folder / "audit-policy.yaml"
            policy.write_text(self.options.audit_policy, encoding="utf-8")

    def _api_server_command(self) -> list[str]:
        return commands.api_server_command(self.at, self.options)

    def restart_api_server(self, **changes: Any) -> None:
        """Kill it and start it on the same port, with some options changed.

        An orderly end waits up to a minute for the watches of its clients.
        """
        self.api_server.kill()
        self.options = replace(self.options, **changes)
        self.api_server.command = self._api_server_command()
        self.api.close()
        self.api_server.start()

    def start_controller_manager(self, controllers: Sequence[str] = CONTROLLERS) -> ServerProcess:
        """Start the controllers of Deployments, Jobs, disruption budgets and the like."""
        name = "kube-controller-manager"
        config = self._config_of(name, credentials.CONTROLLER_MANAGER)
        command = commands.controller_manager_command(self.at, self.options, config, controllers)
        return self._start(name, command, f"https://127.0.0.1:{self.at.ports[name]}/healthz")

    def start_scheduler(
        self,
        names: Sequence[str] = ("default-scheduler",),
        *,
        qps: int = 10_000,
        gates: Sequence[str] = (),
        **more: object,
    ) -> ServerProcess:
        """Start kube-scheduler with a default profile for each scheduler name. `more` are other
        fields of its configuration, `gates` feature gates besides those of all servers.
        """
        name = "kube-scheduler"
        config = self._config_of(name, credentials.SCHEDULER)
        path = self.folder / "scheduler.yaml"
        text = json.dumps(commands.scheduler_config(config, names, qps) | more)
        path.write_text(text, encoding="utf-8")
        options = replace(self.options, feature_gates=(*self.options.gates(), *gates))
        command = commands.scheduler_command(self.at, options, path)
        return self._start(name, command, f"https://127.0.0.1:{self.at.ports[name]}/readyz")

    def start_kwok(self, *, lease_duration_s: int = 40) -> ServerProcess:
        """Start KWOK: nodes become Ready and renew leases; their pods run, complete and end."""
        config = self._config_of("kwok", credentials.KWOK)
        command = commands.kwok_command(self.at, config, lease_duration_s=lease_duration_s)
        return self._start("kwok", command, f"http://127.0.0.1:{self.at.ports['kwok']}/healthz")

    def _config_of(self, name: str, user: User) -> Path:
        return self.write_kubeconfig(self.folder / f"{name}.kubeconfig", user)

    def write_kubeconfig(self, path: Path, user: User, *, url: str | None = None) -> Path:
        """Write a kubeconfig; `url` names a proxy before the API server (TLS passes through it)."""
        return credentials.write_kubeconfig(path, url or self.url, self.at.ca_path, user.token)

    def _start(self, name: str, command: list[str], probe_url: str) -> ServerProcess:
        serves = probe(probe_url, self.at.ca_path)
        server = ServerProcess(name, command, self.folder / f"{name}.log", serves)
        self._servers[name] = server
        server.start()
        return server

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Return kubectl's standard output; raise RuntimeError with its error output on failure."""
        command = [self.at.program("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=KUBECTL_TIMEOUT_S,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def wait_for_crds(self) -> None:
        """Wait until all custom resources are served; `kubectl wait` fails for one that is so new
        that it has no conditions.
        """
        end_s = time.monotonic() + KUBECTL_TIMEOUT_S
        while not all(map(_is_established, self.api.get(CRDS).ok()["items"])):
            assert time.monotonic() < end_s, f"CRDs are not served after {KUBECTL_TIMEOUT_S:.0f} s"
            time.sleep(0.1)

    def audit_events(self) -> list[Any]:
        """Return the events in the audit log so far, oldest first."""
        if not self.at.audit_log_path.exists():
            return []
        # A line that is being written is not an event yet.
        lines = self.at.audit_log_path.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    def stop_others(self) -> None:
        """End the servers that were started beside etcd and the API server."""
        for name in set(self._servers) - {"etcd", "kube-apiserver"}:
            self._servers.pop(name).kill()

    def stop(self) -> None:
        """End every server and remove the data. Idempotent."""
        if self._api is not None:
            self._api.close()
            self._api = None
        # The data is deleted too, so an orderly end would be wasted time; last started, first
        # ended.
        for server in reversed(self._servers.values()):
            server.kill()
        self._servers.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


def probe(url: str, ca_path: Path) -> Callable[[], bool]:
    """Return whether a health address answers 200. The API server's needs the admin's token."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    host, port, path = parts.hostname, parts.port, parts.path
    headers = {"Authorization": f"Bearer {ADMIN.token}"}
    tls = credentials.verifying(ca_path) if parts.scheme == "https" else None

    def serves() -> bool:
        connection = (
            http.client.HTTPSConnection(host, port, timeout=_PROBE_TIMEOUT_S, context=tls)
            if tls is not None
            else http.client.HTTPConnection(host, port, timeout=_PROBE_TIMEOUT_S)
        )
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return serves


def _is_established(crd: dict[str, Any]) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
