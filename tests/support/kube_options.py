"""The options of a test cluster's servers, and the command lines that they give.

Pure: it starts nothing. Every server listens on loopback and verifies or is verified by TLS, except
etcd, which only the API server talks to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shared.model.release import V1_35, V1_36, V1_37


class Release(NamedTuple):
    """What the servers say as their version, and what makes them serve gangs."""

    git_version: str
    feature_gates: tuple[str, ...]
    runtime_config: tuple[str, ...]


_GATES = ("GenericWorkload=true", "GangScheduling=true")
RELEASES = {
    V1_35: Release("v1.35.4", _GATES, ("scheduling.k8s.io/v1alpha1=true",)),
    V1_36: Release("v1.36.3", _GATES, ("scheduling.k8s.io/v1alpha2=true",)),
    V1_37: Release("v1.37.2", ("GenericWorkload=true",), ("scheduling.k8s.io/v1beta1=true",)),
}
# Every write of scheduling and every delete, as metadata: what a checker needs, little to write.
AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [create]
  resources: [{group: "", resources: [pods/binding, pods/eviction, bindings]}]
- level: Request
  verbs: [patch, update]
  resources: [{group: "", resources: [pods/status]}]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - {group: "", resources: [pods, nodes, events]}
  - {group: events.k8s.io, resources: [events]}
- level: None
"""
# The controllers that the tests' objects need; each further one costs CPU.
# node-lifecycle-controller is not among them: it taints nodes that renew no lease, which are all
# nodes of a cluster without KWOK.
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeOptions:
    """What tests change about etcd and the API server. None leaves a server's default, and for
    feature_gates and runtime_config those with which the release serves gangs.
    """

    version: str = V1_37
    authorization_mode: str = "AlwaysAllow"
    audit_policy: str | None = AUDIT_POLICY
    # Also how often history older than this is thrown away. Watches and continued lists are served
    # from the watch cache's own history: for a 410 soon turn that off too.
    etcd_compaction_interval_s: int | None = None
    # What EtcdHistory needs; slower than the default, protobuf.
    storage_json: bool = False
    watch_cache: bool = True
    # Watches end after one to two times this.
    min_request_timeout_s: int | None = None
    # For 429s turn priority_and_fairness off too, or requests queue; the group system:masters is
    # exempt from both.
    max_requests_inflight: int | None = None
    max_mutating_requests_inflight: int | None = None
    priority_and_fairness: bool = True
    feature_gates: tuple[str, ...] | None = None
    runtime_config: tuple[str, ...] | None = None
    disabled_admission: tuple[str, ...] = ("ServiceAccount", "TaintNodesByCondition")
    api_server_args: tuple[str, ...] = ()
    etcd_args: tuple[str, ...] = ()

    def gates(self) -> tuple[str, ...]:
        """Return the feature gates of all servers."""
        release = RELEASES[self.version]
        return release.feature_gates if self.feature_gates is None else self.feature_gates

    def served(self) -> tuple[str, ...]:
        """Return the versions of the API that are served besides the defaults."""
        release = RELEASES[self.version]
        return release.runtime_config if self.runtime_config is None else self.runtime_config


# No limits on requests in flight and no audit log: the API server at its fastest.
LOAD_TEST = KubeOptions(
    audit_policy=None,
    priority_and_fairness=False,
    max_requests_inflight=0,
    max_mutating_requests_inflight=0,
)

# etcd needs a second port for the other members that it does not have.
PORT_NAMES = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The programs, the folder and the ports of one test cluster."""

    programs: Path
    folder: Path
    # By name; see PORT_NAMES.
    ports: Mapping[str, int]
    version: str = V1_37

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.folder / "pki"

    @property
    def ca_path(self) -> Path:
        """The certificate of the authority that signed every server's certificate."""
        return self.pki / "ca.crt"

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    @property
    def etcd_url(self) -> str:
        """Etcd's address."""
        return f"http://127.0.0.1:{self.ports['etcd']}"

    @property
    def audit_log_path(self) -> Path:
        """The audit log: one JSON event a line."""
        return self.folder / "audit.log"

    def program(self, name: str) -> str:
        """Return the path of a built program."""
        folder = {"etcd": "etcd", "kwok": "kwok"}.get(name, f"kubernetes-{self.version}")
        return str(self.programs / folder / name)


def etcd_command(at: Layout, options: KubeOptions) -> list[str]:
    """Return the command of a single etcd without fsync: its data survives kill -9, but no power
    cut.
    """
    peer = f"http://127.0.0.1:{at.ports['etcd-peer']}"
    return [
        at.program("etcd"),
        f"--data-dir={at.folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={at.etcd_url}",
        f"--advertise-client-urls={at.etcd_url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
        "--quota-backend-bytes=8589934592",
        *options.etcd_args,
    ]


def api_server_command(at: Layout, options: KubeOptions) -> list[str]:
    """kube-apiserver."""
    sa_key = at.pki / "sa.key"
    return [
        at.program("kube-apiserver"),
        f"--etcd-servers={at.etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={at.ports['kube-apiserver']}",
        *_serving(at),
        f"--token-auth-file={at.folder / 'tokens.csv'}",
        f"--authorization-mode={options.authorization_mode}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",
        f"--service-account-issuer={at.url}/",
        f"--service-account-key-file={sa_key}",
        f"--service-account-signing-key-file={sa_key}",
        f"--disable-admission-plugins={','.join(options.disabled_admission)}",
        "--endpoint-reconciler-type=none",
        *_feature_gates(options),
        *_runtime_config(options),
        *_limits(options),
        *_audit(at, options),
        *options.api_server_args,
    ]


def _serving(at: Layout) -> list[str]:
    return [
        f"--tls-cert-file={at.pki / 'server.crt'}",
        f"--tls-private-key-file={at.pki / 'server.key'}",
    ]


def _feature_gates(options: KubeOptions) -> list[str]:
    gates = options.gates()
    return [f"--feature-gates={','.join(gates)}"] if gates else []


def _runtime_config(options: KubeOptions) -> list[str]:
    served = options.served()
    return [f"--runtime-config={','.join(served)}"] if served else []


def _limits(options: KubeOptions) -> list[str]:
    seconds = options.etcd_compaction_interval_s
    settings = {
        "etcd-compaction-interval": None if seconds is None else f"{seconds}s",
        "min-request-timeout": options.min_request_timeout_s,
        "max-requests-inflight": options.max_requests_inflight,
        "max-mutating-requests-inflight": options.max_mutating_requests_inflight,
        "watch-cache": None if options.watch_cache else "false",
        "enable-priority-and-fairness": None if options.priority_and_fairness else "false",
    }
    if options.storage_json:
        settings["storage-media-type"] = "application/json"
    return [f"--{name}={value}" for name, value in settings.items() if value is not None]


def _audit(at: Layout, options: KubeOptions) -> list[str]:
    if options.audit_policy is None:
        return []
    return [
        f"--audit-policy-file={at.folder / 'audit-policy.yaml'}",
        f"--audit-log-path={at.audit_log_path}",
    ]


def controller_manager_command(
    at: Layout,
    options: KubeOptions,
    kubeconfig: Path,
    controllers: Sequence[str] = CONTROLLERS,
) -> list[str]:
    """Return the command of kube-controller-manager, without limits on its own requests."""
    return [
        at.program("kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        f"--controllers={','.join(controllers)}",
        f"--service-account-private-key-file={at.pki / 'sa.key'}",
        f"--root-ca-file={at.ca_path}",
        "--kube-api-qps=10000",
        "--kube-api-burst=10000",
        "--concurrent-gc-syncs=5",
        "--authentication-skip-lookup=true",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.ports['kube-controller-manager']}",
        *_serving(at),
        *_feature_gates(options),
    ]


def scheduler_config(kubeconfig: Path, names: Sequence[str], qps: int) -> dict[str, object]:
    """Return a KubeSchedulerConfiguration: defaults, a profile for each name, no speed limit."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": qps, "burst": qps},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name} for name in names],
    }


def scheduler_command(at: Layout, options: KubeOptions, config: Path) -> list[str]:
    """kube-scheduler."""
    return [
        at.program("kube-scheduler"),
        f"--config={config}",
        "--authentication-skip-lookup=true",
        "--bind-address=127.0.0.1",
        f"--secure-port={at.ports['kube-scheduler']}",
        *_serving(at),
        *_feature_gates(options),
    ]


def kwok_command(at: Layout, kubeconfig: Path, *, lease_duration_s: int) -> list[str]:
    """Return the command of KWOK, which plays every node's kubelet. It admits any number
    of pods.
    """
    return [
        at.program("kwok"),
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=true",
        f"--config={at.programs / 'kwok' / 'stages.yaml'}",
        f"--node-lease-duration-seconds={lease_duration_s}",
        f"--server-address=127.0.0.1:{at.ports['kwok']}",
    ]
