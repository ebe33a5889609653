"""Credentials as kubeconfigs and pods have them: read, renewed, and refused with one clear line."""

import asyncio
import json
import ssl
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.faults import UsageFault
from muster.kube_address import kube_cluster, open_kube
from shared.adapters import kube_credentials
from shared.adapters.kube_client import KubeClient
from shared.adapters.kube_credentials import IN_CLUSTER, Credentials, KubeconfigError
from tests.unit.kube.fake_api import FakeApi

EXEC = "client.authentication.k8s.io/v1"


def kubeconfig(folder: Path, url: str, user: dict[str, Any]) -> str:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return str(path)


def plug_in(folder: Path, **status: str) -> tuple[Path, Path, dict[str, Any]]:
    """An exec plug-in: its token file, the file that counts its calls, the user's part."""
    token, calls, script = folder / "token", folder / "calls", folder / "plug-in"
    more = "".join(f', "{key}": "{value}"' for key, value in status.items())
    head = f'{{"apiVersion": "{EXEC}", "kind": "ExecCredential", "status": {{"token": "'
    script.write_text(
        f"#!/bin/sh\necho call >> {calls}\n"
        f"printf '%s%s%s' '{head}' \"$(cat {token})\" '\"{more}}}}}'\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return token, calls, {"exec": {"apiVersion": EXEC, "command": str(script)}}


@pytest.fixture
async def opened(api: FakeApi):
    clients: list[KubeClient] = []

    def make(source: str) -> KubeClient:
        clients.append(KubeClient(Credentials(source)))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


async def test_an_exec_plug_in_is_run_once_and_again_when_its_token_is_refused(
    api: FakeApi, opened, tmp_path
):
    token, calls, user = plug_in(tmp_path)
    token.write_text("first")
    api.token = "first"
    client = opened(kubeconfig(tmp_path, api.url, user))
    for _ in range(3):
        assert (await client.request("GET", "/api/v1/pods")).ok
    assert calls.read_text().count("call") == 1
    token.write_text("second")
    api.token = "second"
    answers = await asyncio.gather(*(client.request("GET", "/api/v1/pods") for _ in range(10)))
    assert all(answer.ok for answer in answers)
    assert calls.read_text().count("call") == 2


async def test_a_plug_in_is_run_again_when_its_token_expires(
    api: FakeApi, opened, tmp_path, monkeypatch
):
    monkeypatch.setattr(kube_credentials, "RENEW_EVERY_S", 0.0)
    token, calls, user = plug_in(tmp_path, expirationTimestamp="2020-01-01T00:00:00Z")
    token.write_text("first")
    client = opened(kubeconfig(tmp_path, api.url, user))
    await client.request("GET", "/api/v1/pods")
    token.write_text("second")
    api.token = "second"
    assert (await client.request("GET", "/api/v1/pods")).ok
    assert calls.read_text().count("call") == 2
    assert [path for _, path in api.requests] == ["/api/v1/pods"] * 2, "no answer was refused"


async def test_a_token_file_is_read_again(api: FakeApi, opened, tmp_path, monkeypatch):
    monkeypatch.setattr(kube_credentials, "RENEW_EVERY_S", 0.0)
    token = tmp_path / "token"
    token.write_text("first")
    client = opened(kubeconfig(tmp_path, api.url, {"tokenFile": str(token)}))
    await client.request("GET", "/api/v1/pods")
    token.write_text("second")
    api.token = "second"
    assert (await client.request("GET", "/api/v1/pods")).ok


async def test_a_token_that_stays_wrong_is_asked_about_once(api: FakeApi, opened, tmp_path):
    api.token = "another"
    client = opened(kubeconfig(tmp_path, api.url, {"token": "mine"}))
    assert (await client.request("GET", "/api/v1/pods")).status == 401
    assert len(api.requests) == 1


async def test_the_service_account_of_a_pod(tmp_path, monkeypatch):
    from kubernetes_asyncio.config import incluster_config

    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("first")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(incluster_config, "TOKEN_REFRESH_PERIOD", timedelta(0))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    credentials = Credentials(IN_CLUSTER)
    await credentials.load()
    assert (credentials.host, credentials.header()) == ("https://10.0.0.1:443", "Bearer first")
    (tmp_path / "token").write_text("second")
    await credentials.renew()
    assert credentials.header() == "Bearer second"


async def test_outside_of_a_pod_there_is_no_service_account(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="in-cluster: Service host/port is not set"):
        await Credentials(IN_CLUSTER).load()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("{", "kubeconfig: "), ('{"contexts": []}', "kubeconfig: Invalid kube-config")],
)
async def test_a_broken_kubeconfig_is_refused(tmp_path, text, complaint):
    (tmp_path / "kubeconfig").write_text(text)
    cluster = kube_cluster(str(tmp_path / "kubeconfig"), ())
    with pytest.raises(UsageFault, match=complaint):
        await open_kube(cluster)


@pytest.mark.parametrize("server", ["https://here", "HTTPS://here"])
async def test_a_secure_address_is_one_however_it_is_written(tmp_path, server):
    credentials = Credentials(kubeconfig(tmp_path, server, {"token": "t"}))
    await credentials.load()
    assert isinstance(credentials.tls(), ssl.SSLContext)
