"""Credentials of kubeconfigs and pods: read, renewed, and refused with one clear line."""

import asyncio
import json
import ssl
import stat
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from muster.cli.addresses.kube import kube_cluster, open_kube
from muster.cli.errors import UsageFault
from shared.kubernetes.client import credentials as kube_credentials
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import IN_CLUSTER, Credentials, KubeconfigError
from tests.support.kube_credentials import make_certificates, make_client_certificate
from tests.unit.kubernetes.fake_api import FakeApi

EXEC = "client.authentication.k8s.io/v1"


def kubeconfig(folder: Path, url: str, user: dict[str, Any], **cluster: str) -> str:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
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


@pytest.fixture
async def secure(tmp_path) -> AsyncIterator[FakeApi]:
    """A server that knows its clients by their certificates; the first is known at first."""
    make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "ca.crt"))
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    for name in ("first", "second"):
        make_client_certificate(tmp_path, name)
    fake = FakeApi()
    await fake.start(tls)
    fake.client_name = "first"
    yield fake
    await fake.stop()


def certifying_plug_in(folder: Path) -> dict[str, Any]:
    """An exec plug-in that gives the certificate and key which lie in the folder as its answer."""
    script = folder / "plug-in"
    script.write_text(f"#!/bin/sh\necho call >> {folder}/calls\ncat {folder}/answer\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": EXEC, "command": str(script)}}


def give(folder: Path, name: str) -> None:
    status = {
        "clientCertificateData": (folder / f"{name}.crt").read_text(),
        "clientKeyData": (folder / f"{name}.key").read_text(),
    }
    answer = {"apiVersion": EXEC, "kind": "ExecCredential", "status": status}
    (folder / "answer").write_text(json.dumps(answer))


async def test_a_plug_in_is_run_again_when_its_certificate_is_refused(
    secure: FakeApi, opened, tmp_path
):
    give(tmp_path, "first")
    user = certifying_plug_in(tmp_path)
    authority = {"certificate-authority": str(tmp_path / "ca.crt")}
    client = opened(kubeconfig(tmp_path, secure.url, user, **authority))
    for _ in range(3):
        assert (await client.request("GET", "/api/v1/pods")).ok
    assert (tmp_path / "calls").read_text().count("call") == 1
    give(tmp_path, "second")
    secure.client_name = "second"
    answers = await asyncio.gather(*(client.request("GET", "/api/v1/pods") for _ in range(10)))
    assert all(answer.ok for answer in answers)
    async with client.stream("/api/v1/pods", 5) as answer:
        assert answer.status == 200, "what aiohttp sends shows the new certificate too"
    assert (tmp_path / "calls").read_text().count("call") == 2


async def test_a_certificate_file_is_read_again(secure: FakeApi, opened, tmp_path, monkeypatch):
    for kind in ("crt", "key"):
        (tmp_path / f"ours.{kind}").write_bytes((tmp_path / f"first.{kind}").read_bytes())
    user = {"client-certificate": str(tmp_path / "ours.crt")}
    user["client-key"] = str(tmp_path / "ours.key")
    authority = {"certificate-authority": str(tmp_path / "ca.crt")}
    client = opened(kubeconfig(tmp_path, secure.url, user, **authority))
    assert (await client.request("GET", "/api/v1/pods")).ok
    monkeypatch.setattr(kube_credentials, "RENEW_EVERY_S", 0.0)
    client.credentials._renew_at_s = 0.0
    (tmp_path / "ours.crt").write_bytes((tmp_path / "second.crt").read_bytes())
    assert (await client.request("GET", "/api/v1/pods")).ok, "its key is not there yet"
    (tmp_path / "ours.key").write_bytes((tmp_path / "second.key").read_bytes())
    secure.client_name = "second"
    assert (await client.request("GET", "/api/v1/pods")).ok
    assert len(secure.requests) == 3, "no answer was refused"


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


async def test_the_token_of_a_pod_is_read_again_when_it_is_refused(opened, tmp_path, monkeypatch):
    from kubernetes_asyncio.config import incluster_config

    make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    api = FakeApi()
    await api.start(tls)
    where = urlsplit(api.url)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", str(where.hostname))
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(where.port))
    try:
        client = opened(IN_CLUSTER)
        for token in ("first", "second"):
            (tmp_path / "token").write_text(token)
            api.token = token
            assert (await client.request("GET", "/api/v1/pods")).ok
        assert len(api.requests) == 3, "one was refused"
        (tmp_path / "token").write_text("third")
        api.token = "third"
        client.credentials._renew_at_s = 0.0
        assert (await client.request("GET", "/api/v1/pods")).ok
        assert len(api.requests) == 4, "it was time to read the file, whatever the library thinks"
    finally:
        await client.close()
        await api.stop()


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
async def test_an_https_address_is_secure_in_any_spelling(tmp_path, server):
    credentials = Credentials(kubeconfig(tmp_path, server, {"token": "t"}))
    await credentials.load()
    assert isinstance(credentials.tls(), ssl.SSLContext)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("users: [[" + "[" * 99, "line 4: nests deeper than 100 levels"),
        ("users: [{name: u, token: planted}]\n", "Expected key"),
        ("users: [{name: u, user: {token: planted}, token: &a [*a]}]", "holds an alias of itself"),
        ("kind: [", "cannot be decoded"),
    ],
)
async def test_an_unreadable_kubeconfig_gets_a_line_without_its_tokens(
    tmp_path: Path, text: str, line: str
):
    path = tmp_path / "kubeconfig"
    rest = (
        "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    path.write_text(rest + text)
    with pytest.raises(KubeconfigError, match=line) as raised:
        await Credentials(str(path)).load()
    assert "planted" not in str(raised.value)
    assert len(str(raised.value)) < len(str(path)) + 300


async def test_the_complaint_of_a_plug_in_is_cut(tmp_path: Path):
    script = tmp_path / "plug-in"
    script.write_text("#!/bin/sh\nyes sorry | head -c 100000 >&2\nexit 1\n")
    script.chmod(0o700)
    user = {"exec": {"apiVersion": EXEC, "command": str(script)}}
    with pytest.raises(KubeconfigError, match=r"process returned 1\. sorry") as raised:
        await Credentials(kubeconfig(tmp_path, "http://127.0.0.1:1", user)).load()
    assert len(str(raised.value)) < len(str(tmp_path)) + 300


@pytest.mark.parametrize(
    ("url", "user", "cluster", "said"),
    [
        ("http://127.0.0.1:1", {"token": "t"}, {}, "a token is sent over http://"),
        ("http://127.0.0.1:1", {}, {}, ""),
        ("https://127.0.0.1:1", {"token": "t"}, {}, ""),
        (
            "https://127.0.0.1:1",
            {"token": "t"},
            {"insecure-skip-tls-verify": True},
            "insecure-skip-tls-verify is set",
        ),
    ],
)
async def test_an_unsafe_setting_is_reported_once_for_all_clients(
    tmp_path, caplog, monkeypatch, url, user, cluster, said
):
    monkeypatch.setattr(kube_credentials, "_warned", {})
    path = kubeconfig(tmp_path, url, user, **cluster)
    for _ in range(2):
        await Credentials(path).load()
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(warnings) == bool(said)
    assert all(f"{url}: {said}" in one for one in warnings)
