"""One control plane for many test modules in turn: each finds it as after its start."""

from dataclasses import dataclass, field

from tests.live.support.objects import until
from tests.support.etcd_store import EtcdStore
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

OPTIONS = KubeOptions(storage_json=True)
OBJECTS = "/registry/"
"""Beside these the API server keeps how far it has compacted etcd, and ends without it."""
AUDIT_BYTES_MAX = 50_000_000
"""A larger log takes long to read, and the API server begins another one at twice this."""
_MADE_BY_THE_API_SERVER = (
    *(
        f"/api/v1/namespaces/{name}"
        for name in ("default", "kube-system", "kube-public", "kube-node-lease")
    ),
    "/api/v1/namespaces/default/services/kubernetes",
)
"""What it makes last."""


@dataclass
class SharedCluster:
    """Starts its servers when they are first needed. A test module may start others beside them,
    but must leave etcd and the API server running.
    """

    _servers: KubeServers | None = None
    _own_keys: frozenset[str] = field(default_factory=frozenset)

    def emptied(self) -> KubeServers:
        """Return the servers without what earlier test modules made or started."""
        if self._servers is not None and not self._can_be_emptied(self._servers):
            self.stop()
        if self._servers is None:
            self._servers = KubeServers(OPTIONS)
            self._servers.start()
            until("the API server has its own objects", self._is_complete)
            self._own_keys = frozenset(EtcdStore(self._servers.at.etcd_url).keys(OBJECTS))
        else:
            self._servers.stop_others()
            store = EtcdStore(self._servers.at.etcd_url)
            store.delete_keys(set(store.keys(OBJECTS)) - self._own_keys)
        return self._servers

    def _is_complete(self) -> bool:
        assert self._servers is not None
        return all(self._servers.api.get(path).status == 200 for path in _MADE_BY_THE_API_SERVER)

    @staticmethod
    def _can_be_emptied(servers: KubeServers) -> bool:
        is_running = servers.etcd.running and servers.api_server.running
        return is_running and servers.at.audit_log_path.stat().st_size <= AUDIT_BYTES_MAX

    def stop(self) -> None:
        """End the servers, if they were started."""
        if self._servers is not None:
            self._servers.stop()
            self._servers = None
