"""Keys, certificates, tokens and kubeconfig files for a test cluster, made with openssl.

For loopback and a few days: nothing here is fit for a cluster that matters.
"""

import csv
import json
import ssl
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

DAYS = "7"
_NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
_NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True, slots=True)
class User:
    """A user that the API server knows by a token."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        """A bearer token, which need not be secret in a test cluster."""
        return f"token-of-{self.name.replace(':', '-')}"


ADMIN = User("admin", ("system:masters",))
# Not in the masters' group, which the API server exempts from every limit.
MUSTER = User("muster")
SCHEDULER = User("system:kube-scheduler")
# Its own role plus one service account per controller: one user with all of them will do here.
CONTROLLER_MANAGER = User("system:kube-controller-manager", ("system:masters",))
KWOK = User("kwok", ("system:masters",))


def _openssl(folder: Path, *arguments: str) -> None:
    command = ["openssl", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")


def make_certificates(folder: Path) -> None:
    """Write ca.crt, server.crt and server.key for 127.0.0.1, and sa.key, which signs service
    accounts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority = ["-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=muster test authority"]
    _openssl(folder, "req", "-x509", *_NEW_KEY, *authority, "-days", DAYS)
    (folder / "names").write_text(f"{_NAMES}\nextendedKeyUsage=serverAuth\n", encoding="ascii")
    request = ["-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1"]
    _openssl(folder, "req", "-new", *_NEW_KEY, *request)
    signed = ["-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]
    written = ["-out", "server.crt", "-extfile", "names", "-days", DAYS]
    _openssl(folder, "x509", "-req", *signed, *written)
    _openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "sa.key")


def make_client_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Write a client's key and certificate, signed by the authority of `make_certificates`."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    request = ["-keyout", key.name, "-out", f"{name}.csr", "-subj", f"/CN={name}"]
    _openssl(folder, "req", "-new", *_NEW_KEY, *request)
    signed = ["-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]
    _openssl(folder, "x509", "-req", *signed, "-out", certificate.name, "-days", DAYS)
    return certificate, key


def verifying(ca_path: Path) -> ssl.SSLContext:
    """Return a client context that trusts only this authority and checks names."""
    return ssl.create_default_context(cafile=str(ca_path))


def write_tokens(path: Path, users: Iterable[User]) -> None:
    """Write the API server's --token-auth-file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        for number, user in enumerate(users, start=1):
            groups = [",".join(user.groups)] if user.groups else []
            rows.writerow([user.token, user.name, str(number), *groups])


def write_kubeconfig(path: Path, url: str, ca_path: Path, token: str) -> Path:
    """Write a kubeconfig (JSON is YAML) that trusts only this authority."""
    cluster = {"server": url, "certificate-authority": str(ca_path.resolve())}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config, indent=2), encoding="utf-8")
    path.chmod(0o600)
    return path


def all_users(more: Sequence[User]) -> list[User]:
    """Return the users that the servers need, and those that a test adds."""
    return [ADMIN, MUSTER, SCHEDULER, CONTROLLER_MANAGER, KWOK, *more]
