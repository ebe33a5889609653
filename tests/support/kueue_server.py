"""A real Kueue beside a test cluster: its API, its webhooks and its controllers.

The API server reaches the webhooks as in a cluster, by their Service; its address is loopback, for
there is no network of pods. Kueue makes its certificates itself.
"""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import yaml

from tests.support.kube_credentials import ADMIN
from tests.support.kube_server import KubeServers, probe
from tests.support.required_tools import require_tool
from tests.support.server_process import ServerProcess, free_ports, servers_dir

INSTALL_COMMAND = "deploy/servers/install.sh kueue"
NAMESPACE = "kueue-system"
API = "/apis/kueue.x-k8s.io/v1beta2"
START_TIMEOUT_S = 120.0
_SERVICE, _SECRET = "kueue-webhook-service", "kueue-webhook-server-cert"
_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_CONVERTED = ("localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters")
_POLL_S = 0.05


class Kueue:
    """Kueue for Jobs and for plain pods that name a queue. A context manager. Every call blocks."""

    def __init__(self, servers: KubeServers) -> None:
        """Skip, or fail in CI, where Kueue is not built."""
        self._built = servers_dir() / "kueue"
        found = all(
            (self._built / name).is_file() for name in ("kueue", "crds.yaml", "webhooks.yaml")
        )
        require_tool("kueue", INSTALL_COMMAND, found=found)
        self._servers = servers
        self._folder = servers.folder / "kueue"
        self._webhook_port, health_port = free_ports(2)
        self._certificates = self._folder / "certificates"
        self._certificates.mkdir(parents=True)
        path = self._folder / "config.yaml"
        path.write_text(json.dumps(self._config(health_port)), encoding="utf-8")
        kubeconfig = servers.write_kubeconfig(self._folder / "kubeconfig", ADMIN)
        command = [str(self._built / "kueue"), f"--config={path}", f"--kubeconfig={kubeconfig}"]
        serves = probe(f"http://127.0.0.1:{health_port}/readyz", servers.at.ca_path)
        self._server = ServerProcess(
            "kueue", command, self._folder / "log", serves, start_timeout_s=START_TIMEOUT_S
        )

    def _config(self, health_port: int) -> dict[str, Any]:
        webhook = {"host": "127.0.0.1", "port": self._webhook_port}
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {**webhook, "certDir": str(self._certificates)},
            "leaderElection": {"leaderElect": False},
            "manageJobsWithoutQueueName": False,
            "internalCertManagement": {"enable": True},
            "integrations": {"frameworks": ["batch/job", "pod"]},
            # It would serve one more API, of what waits.
            "featureGates": {"VisibilityOnDemand": False},
        }

    def __enter__(self) -> Self:
        self._servers.kubectl("apply", "--server-side", "-f", "-", stdin=self._manifests())
        self._servers.wait_for_crds()
        try:
            self._server.start(wait=False)
            self._mount_certificates()
            self._server.wait_serving()
        except BaseException:
            self._server.kill()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.kill()

    @property
    def log(self) -> Path:
        """The path of its log."""
        return self._server.log_path

    def _manifests(self) -> str:
        """Return what an installation of Kueue applies, without Deployment and roles."""
        return yaml.safe_dump_all([*self._beside(), *self._crds(), *self._webhooks()])

    def _beside(self) -> Iterator[dict[str, Any]]:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        # An address for the API server, which does not look who is behind it.
        service = {"type": "ExternalName", "externalName": "127.0.0.1"}
        for kind, name, more in (("Secret", _SECRET, {}), ("Service", _SERVICE, {"spec": service})):
            metadata = {"name": name, "namespace": NAMESPACE}
            yield {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}

    def _crds(self) -> Iterator[dict[str, Any]]:
        for crd in self._documents("crds.yaml"):
            if crd["spec"]["names"]["plural"] in _CONVERTED:
                client = {"service": self._service("/convert")}
                webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
                crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
            yield crd

    def _webhooks(self) -> Iterator[dict[str, Any]]:
        for body in self._documents("webhooks.yaml"):
            body["metadata"]["name"] = f"kueue-{body['metadata']['name']}"
            for webhook in body["webhooks"]:
                client = webhook["clientConfig"]
                client["service"] = self._service(client["service"]["path"])
            yield body

    def _documents(self, name: str) -> list[dict[str, Any]]:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        text = (self._built / name).read_text(encoding="utf-8")
        return [one for one in yaml.load_all(text, loader) if one]

    def _service(self, path: str) -> dict[str, Any]:
        port = self._webhook_port
        return {"name": _SERVICE, "namespace": NAMESPACE, "port": port, "path": path}

    def _mount_certificates(self) -> None:
        """Write the files of Kueue's Secret once it has any, as a kubelet does."""
        deadline_s = time.monotonic() + START_TIMEOUT_S
        data: dict[str, str] = {}
        while not data and self._server.running and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
            data = self._servers.api.get(f"{_SECRETS}/{_SECRET}").ok().get("data", {})
        # Kueue goes on when it sees the certificate, which is written last.
        for name in sorted(data, key=lambda name: name == "tls.crt"):
            (self._certificates / name).write_bytes(base64.b64decode(data[name]))
