"""The Helm chart and the kustomize bases: what they render, and the errors for wrong values."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster import __version__
from muster.app.journals import partitions
from muster.cli.addresses.bus import parse_bus
from shared.bus.kafka.settings import KafkaSettings
from shared.bus.kafka.topics import topic_settings
from shared.configuration.scheduler_config import read_config
from shared.kubernetes.client.access import GROUPS, NEEDED, of_election
from shared.kubernetes.client.discovery import POD_GROUPS, WORKLOADS
from shared.model.election import Election
from tests.support.helm import (
    BROKER,
    CHART,
    EVERYTHING,
    NAMESPACE,
    ROOT,
    Manifest,
    helm,
    helm_path,
    of_kind,
    rendered,
    template,
)

KUSTOMIZE = ROOT / "deploy" / "kustomize"
SERVICES = ("ingest", "queueing", "placement-0", "permit", "preemption", "binding")
CONFIG = {
    "profiles": [{"schedulerName": "batch"}, {"schedulerName": "muster"}],
    "extenders": [{"urlPrefix": "http://extender.muster.svc:8080", "filterVerb": "filter"}],
}


@pytest.fixture(autouse=True)
def _has_helm():
    helm_path()


def configured(tmp_path: Path, config: dict[str, Any], *values: str) -> list[Manifest]:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    return rendered(*values, file=file)


def permissions(role: Manifest) -> set[str]:
    """Return what a role allows, in the words of permissions."""
    return {
        f"{verb} {resource}{'.' + group if group else ''}"
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def needed(*services: str) -> set[str]:
    """Return what the services ask for, with both resources that hold pod groups."""
    return {
        str(one._replace(resource=groups) if one.resource == GROUPS else one)
        for service in services
        for one in NEEDED[service]
        for groups in (WORKLOADS, POD_GROUPS)
    }


def container(manifests: list[Manifest], name: str) -> Manifest:
    found = of_kind(manifests, "StatefulSet")[name]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found[0], dict)
    return found[0]


def test_the_chart_has_no_faults():
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_the_chart_has_the_version_of_the_product():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["mode=both"], "at '/mode': value must be one of 'process', 'services'"),
        (["placement=3"], "additional properties 'placement' not allowed"),
        (["replicas=0"], "at '/replicas': minimum: got 0, want 1"),
        (["volume.size=big"], "at '/volume/size': 'big' does not match pattern"),
        (["mode=services"], "kafka.brokers: name at least one HOST:PORT, or set strimzi.enabled"),
        ([*BROKER, "kafka.brokers={kafka}"], "at '/kafka/brokers/0': 'kafka' does not match"),
        ([*BROKER, "kafka.passwordSecret.name="], "SASL_SSL needs the Secret with the password"),
        ([*BROKER, "kafka.minInsyncReplicas=4"], "must not exceed kafka.replicationFactor"),
        ([*BROKER, "strimzi.enabled=true"], "kafka.brokers: must be empty with strimzi.enabled"),
        (["strimzi.enabled=true"], "strimzi.enabled: is for mode services"),
        (["volume.sharedClaim=a"], "volume.sharedClaim: is for mode services"),
    ],
)
def test_a_wrong_value_is_named_with_its_rule(values: list[str], text: str):
    done = template(*values)
    assert done.returncode == 1
    assert text in done.stderr


def test_the_bases_are_what_the_chart_renders(tmp_path: Path):
    """`make manifests` has been run."""
    script = ["bash", str(KUSTOMIZE / "render.sh"), str(tmp_path)]
    subprocess.run(script, check=True, env={**os.environ})
    for base in ("process", "services"):
        text = (KUSTOMIZE / base / "muster.yaml").read_text(encoding="utf-8")
        assert (tmp_path / base / "muster.yaml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("cluster", "release"),
    [("1.34.9", "1.35"), ("1.36.0-gke.7", "1.36"), ("1.37.2", "1.37"), ("1.40.0", "1.37")],
)
def test_services_decide_as_the_release_nearest_to_the_cluster(cluster: str, release: str):
    manifests = rendered(*BROKER, words=["--kube-version", cluster])
    for name in SERVICES:
        args = container(manifests, f"muster-{name}")["args"]
        assert f"--compatibility-version={release}" in args


def test_one_process_asks_the_api_server_for_its_release():
    assert not any("compatibility" in word for word in container(rendered(), "muster")["args"])


def test_one_process_may_do_what_the_published_role_allows():
    published = yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text(encoding="utf-8"))
    (role,) = [one for one in published if one["kind"] == "ClusterRole"]
    roles = of_kind(rendered(), "ClusterRole")
    assert permissions(roles["muster"]) == permissions(role) | needed("ingest")
    assert permissions(roles["muster"]) == needed("ingest", "binding")


def test_each_service_may_do_what_it_asks_for_and_no_more():
    manifests = rendered(*BROKER)
    roles = of_kind(manifests, "ClusterRole")
    found = {name: permissions(role) for name, role in roles.items()}
    assert found == {f"muster-{name}": needed(name) for name in ("ingest", "binding")}
    lease = of_kind(manifests, "Role")["muster-lease"]
    assert permissions(lease) == {str(one) for one in of_election(Election("muster"))}
    subjects = of_kind(manifests, "RoleBinding")["muster-lease"]["subjects"]
    assert [one["name"] for one in subjects] == ["muster-ingest", "muster-binding"]


def test_the_configuration_is_one_that_the_product_reads(tmp_path: Path):
    text = (ROOT / "examples" / "scheduler-config.yaml").read_text(encoding="utf-8")
    config = {**yaml.safe_load(text), "podMaxBackoffSeconds": 12_345_678}
    found = of_kind(configured(tmp_path, config), "ConfigMap")["muster"]["data"]
    path = tmp_path / "scheduler-config.yaml"
    path.write_text(found["scheduler-config.yaml"], encoding="utf-8")
    whole = tmp_path / "whole.yaml"
    whole.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert read_config(path) == read_config(whole)


@pytest.mark.parametrize(
    ("more", "name", "namespace"),
    [
        ({}, "muster-batch", "kube-system"),
        ({"leaderElection": {"resourceName": "kube-scheduler"}}, "kube-scheduler", "kube-system"),
        ({"leaderElection": {"resourceNamespace": "muster"}}, "muster-batch", "muster"),
    ],
)
def test_the_lease_is_the_one_that_the_configuration_asks_for(
    tmp_path: Path, more: dict[str, Any], name: str, namespace: str
):
    lease = of_kind(configured(tmp_path, {**CONFIG, **more}), "Role")["muster-lease"]
    assert lease["metadata"]["namespace"] == namespace
    assert lease["rules"][1]["resourceNames"] == [name]


def test_without_an_election_there_is_no_role_for_a_lease(tmp_path: Path):
    config = {"leaderElection": {"leaderElect": False}}
    assert of_kind(configured(tmp_path, config), "Role") == {}


def test_extenders_let_shards_and_binding_read_pods_and_nodes(tmp_path: Path):
    roles = of_kind(configured(tmp_path, CONFIG, *BROKER), "ClusterRole")
    assert permissions(roles["muster-placement"]) == {"get pods", "list nodes"}
    assert permissions(roles["muster-binding"]) == needed("binding") | {"list nodes"}


def test_groups_may_ask_for_nodes_where_that_is_enabled():
    published = (ROOT / "deploy" / "rbac-provisioning.yaml").read_text(encoding="utf-8")
    (role,) = [one for one in yaml.safe_load_all(published) if one["kind"] == "ClusterRole"]
    enabled = "provisioningRequests.enabled=true"
    whole = permissions(of_kind(rendered(enabled), "ClusterRole")["muster"])
    assert whole - needed("ingest", "binding") == permissions(role)
    parts = of_kind(rendered(*BROKER, enabled), "ClusterRole")
    read = {f"{verb} provisioningrequests.autoscaling.x-k8s.io" for verb in ("list", "watch")}
    assert permissions(parts["muster-ingest"]) - needed("ingest") == read
    assert permissions(parts["muster-binding"]) - needed("binding") == permissions(role) - read


def test_queues_are_read_where_they_are_enabled():
    published = (ROOT / "deploy" / "queues.yaml").read_text(encoding="utf-8")
    kind, role, _binding = yaml.safe_load_all(published)
    enabled = rendered("queues.enabled=true")
    assert of_kind(enabled, kind["kind"])["queues.muster.io"] == kind
    whole = permissions(of_kind(enabled, "ClusterRole")["muster"])
    assert whole - needed("ingest", "binding") == permissions(role)
    assert "CustomResourceDefinition" not in {one["kind"] for one in rendered()}


def test_each_shard_and_each_other_service_has_a_stateful_set():
    names = {f"muster-{name}" for name in (*SERVICES, "placement-1", "placement-2")}
    manifests = rendered(*BROKER, "placements=3")
    assert set(of_kind(manifests, "StatefulSet")) == names
    for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
        assert set(of_kind(manifests, kind)) == names, kind
    words = container(manifests, "muster-placement-2")["args"]
    assert words[:2] == ["serve", "placement/2"]
    assert "--placements=3" in words


@pytest.mark.parametrize("values", [(), BROKER, EVERYTHING], ids=["process", "broker", "strimzi"])
def test_no_pod_has_more_rights_than_it_needs(values: tuple[str, ...]):
    for name, found in of_kind(rendered(*values), "StatefulSet").items():
        spec = found["spec"]["template"]["spec"]
        (one,) = spec["containers"]
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        calls = name in ("muster", "muster-ingest", "muster-binding")
        assert spec["automountServiceAccountToken"] is calls, name


def test_only_services_that_call_the_api_server_reach_it():
    for name, found in of_kind(rendered(*BROKER), "NetworkPolicy").items():
        ports = {port["port"] for rule in found["spec"]["egress"] for port in rule["ports"]}
        calls = name in ("muster-ingest", "muster-binding")
        assert ports == {53, 9093} | ({443, 6443} if calls else set()), name


def test_the_address_of_the_bus_is_one_that_the_product_reads():
    address = of_kind(rendered(*BROKER), "ConfigMap")["muster"]["data"]["bus"]
    settings = parse_bus(address).kafka
    assert settings == KafkaSettings(
        bootstrap="kafka:9093",
        security_protocol="SASL_SSL",
        ssl_ca_file="/etc/muster/kafka/ca.crt",
        sasl_username="muster",
        sasl_password_file="/etc/muster/kafka/password",
    )


def test_strimzi_makes_the_topics_that_the_product_would_make():
    manifests = rendered(*EVERYTHING)
    address = of_kind(manifests, "ConfigMap")["muster"]["data"]["bus"]
    settings = parse_bus(address).kafka
    assert settings is not None
    assert re.fullmatch(rf"muster-kafka-bootstrap\.{NAMESPACE}\.svc:9093", settings.bootstrap)
    topics = [one["spec"] for one in of_kind(manifests, "KafkaTopic").values()]
    assert {one["topicName"]: one["partitions"] for one in topics} == {
        settings.topic(service): count for service, count in partitions(3).items()
    }
    for one in topics:
        assert one["replicas"] == settings.replication_factor
        found = {name: str(value).lower() for name, value in one["config"].items()}
        assert found == topic_settings(settings)


def test_journals_are_cut_where_all_processes_share_their_snapshots():
    shared = container(rendered(*EVERYTHING), "muster-ingest")["args"]
    apart = container(rendered(*BROKER), "muster-ingest")["args"]
    assert "--cut-journals" in shared
    assert "--cut-journals" not in apart
    assert "--cut-journals" in container(rendered(), "muster")["args"]
