"""The Helm chart and the kustomize bases on a real API server: it accepts every manifest, and the
product works with the words, the service accounts and the roles that they give it.

There is no kubelet: the containers' words run as processes here, with the paths of this machine.
"""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import pytest
import yaml
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import CreateAclsRequest

from tests.live.conftest import NewCluster
from tests.live.support.objects import LEASES, PODS, Running, create_nodes, nodes_of, pod, until
from tests.support.helm import (
    CHART,
    EVERYTHING,
    NAMESPACE,
    ROOT,
    Manifest,
    helm,
    of_kind,
    rendered,
    template,
)
from tests.support.kafka_brokers import AUTHORIZER, Secured, secured_broker
from tests.support.kube_credentials import write_kubeconfig
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers
from tests.support.server_process import free_ports

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
BASES = ("process", "services")
CRDS = Path(__file__).parent / "support" / "crds.yaml"
KUSTOMIZE = ROOT / "deploy" / "kustomize"
FILES = {"ca.crt": "ca.pem", "client.crt": "cert.pem", "client.key": "key.pem"}
"""The chart's names for the files of `secured_broker`."""
RESOURCES, PATTERNS, ALLOW = {"topic": 2}, {"literal": 3, "prefix": 4}, 3
OPERATIONS = {
    "Read": 3, "Write": 4, "Create": 5, "Delete": 6, "Describe": 8, "DescribeConfigs": 10,
}  # fmt: skip
"""The numbers of Kafka's protocol."""


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    servers = new_cluster(KubeOptions(authorization_mode="RBAC"))
    servers.kubectl("apply", "-f", str(CRDS))
    servers.wait_for_crds()
    servers.kubectl("apply", "-k", str(KUSTOMIZE / "namespace"))
    create_nodes(servers.api, ["server-1", "server-2"])
    return servers


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    yield from secured_broker(tmp_path_factory.mktemp("tls"), AUTHORIZER)


@pytest.mark.parametrize("base", BASES)
def test_the_api_server_accepts_a_base(servers: KubeServers, base: str):
    dry = ["--dry-run=server", "--validate=strict", "-o", "name"]
    text = servers.kubectl("kustomize", str(KUSTOMIZE / base))
    names = servers.kubectl("apply", *dry, "-f", "-", stdin=text).split()
    assert len(names) == sum(line.startswith("kind:") for line in text.splitlines())
    _accepts_pods(servers, list(yaml.safe_load_all(text)))


@pytest.mark.parametrize("values", [EVERYTHING, (*EVERYTHING, "config.podMaxBackoffSeconds=20")])
def test_the_api_server_accepts_everything_that_the_chart_has(
    servers: KubeServers, values: tuple[str, ...]
):
    dry = ["--dry-run=server", "--validate=strict", "-o", "name"]
    names = servers.kubectl("apply", *dry, "-f", "-", stdin=template(*values).stdout).split()
    found = rendered(*values)
    assert len(names) == len(found)
    assert {one["kind"] for one in found} >= {"ServiceMonitor", "Kafka", "KafkaUser"}
    _accepts_pods(servers, found)


def _accepts_pods(servers: KubeServers, manifests: list[Manifest]) -> None:
    """Check that the namespace, whose pods are restricted, would take the pods of each set."""
    accounts = [one for one in manifests if one["kind"] == "ServiceAccount"]
    servers.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(accounts))
    for name, found in of_kind(manifests, "StatefulSet").items():
        template = found["spec"]["template"]
        meta = {"name": name, "namespace": NAMESPACE, "labels": template["metadata"]["labels"]}
        claim = {"name": "run", "persistentVolumeClaim": {"claimName": "run"}}
        volumes = template["spec"]["volumes"]
        if "volumeClaimTemplates" in found["spec"]:
            volumes = [*volumes, claim]
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {**template["spec"], "volumes": volumes},
        }
        dry = ["create", "--dry-run=server", "--validate=strict", "-f", "-"]
        servers.kubectl(*dry, stdin=json.dumps(made))


async def allow(broker: str, user: str, rules: list[Manifest]) -> None:
    """Give a user of Kafka the rules of a KafkaUser, as Strimzi's operator does."""
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    try:
        for rule in rules:
            what = rule["resource"]
            kind, pattern = RESOURCES[what["type"]], PATTERNS[what["patternType"]]
            for operation in rule["operations"]:
                number = OPERATIONS[operation]
                request = CreateAclsRequest(
                    kind, what["name"], pattern, f"User:{user}", rule["host"], number, ALLOW
                )
                response = await admin._send_request(request)
                assert [one[0] for one in response.creation_responses] == [0], response
    finally:
        await admin.close()


def test_a_release_is_upgraded_rolled_back_and_removed(servers: KubeServers):
    where = [f"--kubeconfig={servers.kubeconfig}", "--namespace=muster"]
    sets = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"

    def do(*words: str) -> None:
        done = helm(*words, *where)
        assert done.returncode == 0, done.stderr

    def replicas() -> dict[str, int]:
        found = servers.api.items(sets)
        return {one["metadata"]["name"]: one["spec"]["replicas"] for one in found}

    do("install", "other", str(CHART))
    assert replicas() == {"other": 2}
    do("upgrade", "other", str(CHART), "--set=replicas=3,image.tag=0.2.1")
    assert replicas() == {"other": 3}
    do("rollback", "other")
    assert replicas() == {"other": 2}
    do("uninstall", "other")
    assert replicas() == {}


@dataclass
class Deployed:
    """The manifests of a release, applied, and a folder for their processes."""

    servers: KubeServers
    manifests: list[Manifest]
    folder: Path
    files: Path = Path("none")

    def __post_init__(self) -> None:
        kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
        wanted = [one for one in self.manifests if one["kind"] in kinds]
        self.servers.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(wanted))
        self.ports: dict[str, int] = {}

    def process(self, name: str, ordinal: int = 0) -> Running:
        """Start what the container of a pod would run, with the token that its pod would have."""
        spec = of_kind(self.manifests, "StatefulSet")[name]["spec"]["template"]["spec"]
        owner = f"{name}-{ordinal}"
        (port,) = free_ports(1)
        self.ports[owner] = port
        here = {
            "$(MUSTER_BUS)": self.bus,
            "in-cluster": str(self._kubeconfig(spec, owner)),
            "/var/lib/muster/run": str(self.folder / owner),
            "0.0.0.0:9090": f"127.0.0.1:{port}",
        }
        words = list(spec["containers"][0]["args"])
        for there, local in here.items():
            words = [word.replace(there, local) for word in words]
        if words[0] == "serve":
            words.append(f"--owner={owner}")  # in a pod the host's name
        return Running(words, self.folder / f"log-{owner}")

    @property
    def bus(self) -> str:
        """The address in the ConfigMap; empty if there is none."""
        found = of_kind(self.manifests, "ConfigMap")
        address = str(found["muster"]["data"]["bus"]) if found else ""
        return address.replace("/etc/muster/kafka/", f"{self.files}/")

    def command(self, owner: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command over the bus as `kubectl exec` would in a pod that runs."""
        path = self.folder / f"{owner}.kubeconfig"
        more = [f"--bus={self.bus}", f"--kubeconfig={path}"]
        command = [sys.executable, "-m", "muster", *words, *more]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    def _kubeconfig(self, spec: Manifest, owner: str) -> Path:
        token = "a pod without a token"
        if spec["automountServiceAccountToken"]:
            account = spec["serviceAccountName"]
            token = self.servers.kubectl("create", "token", "-n", NAMESPACE, account).strip()
        path, at = self.folder / f"{owner}.kubeconfig", self.servers
        return write_kubeconfig(path, at.url, at.at.ca_path, token)

    def answer(self, owner: str, path: str) -> tuple[int, str]:
        """Return the answer to a probe; 0 while nothing listens."""
        connection = HTTPConnection("127.0.0.1", self.ports[owner], timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def is_ready(self, owner: str) -> bool:
        return self.answer(owner, "/livez")[0] == self.answer(owner, "/readyz")[0] == 200


def test_services_work_with_a_role_each_over_a_secured_broker(
    servers: KubeServers, secured: Secured, tmp_path: Path
):
    files = tmp_path / "kafka"
    files.mkdir()
    source = Path(str(secured.settings.ssl_ca_file)).parent
    for name, file in {**FILES, "password": "password"}.items():
        shutil.copy(source / file, files / name)
    values = [
        "mode=services",
        f"kafka.brokers={{{secured.settings.bootstrap}}}",
        "kafka.replicationFactor=1",
        "kafka.minInsyncReplicas=1",
        *(f"kafka.{one}Secret.name=muster-kafka" for one in ("password", "ca", "client")),
    ]
    (user,) = of_kind(rendered(*EVERYTHING), "KafkaUser").values()
    asyncio.run(allow(secured.plain, "muster", user["spec"]["authorization"]["acls"]))
    deployed = Deployed(servers, rendered(*values), tmp_path, files)
    names = list(of_kind(deployed.manifests, "StatefulSet"))
    with ExitStack() as stack:
        running = [stack.enter_context(deployed.process(name)) for name in names]
        servers.api.create(PODS, pod("first")).ok()

        def is_bound() -> bool:
            for one in running:
                assert one.process.poll() is None, one.said()
            return bool(nodes_of(servers.api)["first"])

        until("it is bound", is_bound)
        for name in names:
            until(f"{name} is ready", lambda: deployed.is_ready(f"{name}-0"))  # noqa: B023
        done = deployed.command("muster-ingest-0", "reset", "--reason=a test")
        assert "epoch 2 is open" in done.stdout, done.stderr
        servers.api.create(PODS, pod("after")).ok()
        until("it is bound in the new epoch", lambda: bool(nodes_of(servers.api)["after"]))
        said = "".join(one.said() for one in running)
    assert "does not allow" not in said
    assert "Forbidden" not in said


def test_a_standby_takes_over_from_one_process(servers: KubeServers, tmp_path: Path):
    servers.api.request("DELETE", f"{LEASES}/muster")
    deployed = Deployed(servers, rendered(), tmp_path)
    with deployed.process("muster") as first, deployed.process("muster", 1):
        for owner in ("muster-0", "muster-1"):
            until(f"{owner} is ready", lambda: deployed.is_ready(owner))  # noqa: B023
        states = [deployed.answer(owner, "/readyz")[1] for owner in ("muster-0", "muster-1")]
        assert sorted("[+]leader leads" in state for state in states) == [False, True]
        servers.api.create(PODS, pod("second")).ok()
        until("it is bound", lambda: bool(nodes_of(servers.api)["second"]))
        first.kill()
        servers.api.create(PODS, pod("third")).ok()
        until("the other binds", lambda: bool(nodes_of(servers.api)["third"]))


def test_a_service_account_without_its_role_is_refused(servers: KubeServers, tmp_path: Path):
    """The tokens are those of the service accounts: what their roles lack is missing."""
    deployed = Deployed(servers, rendered("schedulerNames={other}"), tmp_path)
    servers.kubectl("delete", "clusterrolebinding", "muster")
    with deployed.process("muster") as running:
        until("it ends", lambda: running.process.poll() is not None)
        assert "does not allow us to" in running.said()
