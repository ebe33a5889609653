"""Our identity for a Kubernetes API server: a kubeconfig (tokens, certificates, exec plug-ins) or
the service account of our pod. kubernetes-asyncio reads and renews it and never prompts.
"""

import asyncio
import logging
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shared.adapters import bounded_yaml
from shared.kubernetes.client.credential_library import library
from shared.model.text import quoted

IN_CLUSTER = "in-cluster"
RENEW_EVERY_S = 30.0

log = logging.getLogger("muster.kube")
_warned: dict[tuple[str, str], bool] = {}


class KubeconfigError(ValueError):
    """There are no usable credentials; the text is one line for people."""


class Credentials:
    """One server's address, TLS settings and the Authorization header, kept fresh."""

    def __init__(self, source: str) -> None:
        """`source` is a kubeconfig's path, or `in-cluster`. Nothing is read before `load`."""
        self.source = source
        self._path = source if source == IN_CLUSTER else str(Path(source).expanduser())
        self.host = ""
        self._configuration: Any = None
        self._loader: Any = None
        # Counts our identities; 0 = none yet.
        self.version = 0
        self.certificate = b""
        self._shown: tuple[str, bytes] | None = None
        self._renew_at_s = 0.0
        self._renewing = asyncio.Lock()

    def check(self) -> None:
        """Check that there is something to read. Raises KubeconfigError."""
        if self.source != IN_CLUSTER and not Path(self._path).is_file():
            rule = (
                "is no file; it is read again when it changes" if Path(self._path).exists() else ""
            )
            raise KubeconfigError(f"{self.source}: {rule or 'does not exist'}")

    @property
    def proxy(self) -> str | None:
        """Return the kubeconfig's proxy-url."""
        proxy: str | None = self._configuration.proxy
        return proxy

    @property
    def server_name(self) -> str | None:
        """Return the name that the server's certificate must have, if it is not the host's."""
        name: str | None = self._configuration.tls_server_name
        return name

    async def load(self) -> None:
        """Read everything; run the exec plug-in if there is one. Raises KubeconfigError."""
        config, make_configuration = library()
        self._configuration = make_configuration()
        try:
            if self.source == IN_CLUSTER:
                config.load_incluster_config(client_configuration=self._configuration)
            else:
                # The loader formats values into names and messages without checking their types.
                bounded_yaml.check_file(Path(self._path))
                self._loader = await config.load_kube_config(
                    config_file=self._path, client_configuration=self._configuration
                )
            self._look()
        except Exception as error:
            # The loader passes on any exception of its plug-ins and parsers.
            raise KubeconfigError(f"{self.source}: {_text_of(error)}") from error
        self.host = self._configuration.host
        self._renew_at_s = time.monotonic() + RENEW_EVERY_S
        self._warn()

    def _warn(self) -> None:
        """Warn of unsafe credentials, once per server: a process has several clients of
        one server.
        """
        unsafe = []
        if not self._configuration.verify_ssl:
            unsafe.append("insecure-skip-tls-verify is set: the server is not verified")
        if urlsplit(self.host).scheme == "http" and self.header():
            unsafe.append("a token is sent over http://, which anyone on the network path can read")
        for text in unsafe:
            if (self.host, text) not in _warned:
                _warned[self.host, text] = True
                log.warning("%s: %s", self.host, text)

    def tls(self) -> ssl.SSLContext | bool:
        """Return the TLS settings of connections."""
        if urlsplit(self.host).scheme != "https":
            return True
        configuration = self._configuration
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def header(self) -> str:
        """Return the Authorization header's value; empty for none."""
        value: str = self._configuration.api_key.get("BearerToken", "")
        return value

    @property
    def is_due(self) -> bool:
        """Return whether `renew` should be called before the next request."""
        return time.monotonic() >= self._renew_at_s

    async def renew(self, refused: int = 0) -> None:
        """Read again what may have been rotated. `refused` is a version that the server did not
        accept.
        """
        async with self._renewing:
            if refused and refused != self.version:
                return  # Another task has renewed them.
            self._renew_at_s = time.monotonic() + RENEW_EVERY_S
            try:
                await self._read_again(is_refused=bool(refused))
                self._look()
            except Exception as error:
                text = _text_of(error)
                log.warning("%s: credentials could not be renewed: %s", self.source, text)

    async def _read_again(self, is_refused: bool) -> None:
        if self._loader is None:
            # The hook set here would read the file at most once a minute.
            library().config.load_incluster_config(client_configuration=self._configuration)
            return
        if is_refused and hasattr(self._loader, "exec_plugin_expiry"):
            del self._loader.exec_plugin_expiry
        if is_refused or not self._is_costly():
            await self._loader.load_and_set(self._configuration)

    def _look(self) -> None:
        """Count a new identity if the token or the certificate in its file has changed."""
        cert_file = self._configuration.cert_file
        self.certificate = Path(cert_file).read_bytes() if cert_file else b""
        shown = (self.header(), self.certificate)
        if shown != self._shown:
            self._shown = shown
            self.version += 1

    def _is_costly(self) -> bool:
        """Return whether renewing is costly. An exec plug-in without an expiry runs again only when
        its credentials are refused.
        """
        user = self._loader._user
        return bool(user) and "exec" in user and not hasattr(self._loader, "exec_plugin_expiry")


def _text_of(error: Exception) -> str:
    """Return an error's text. The library names an entry without a name by its content, tokens
    included: that part is removed.
    """
    return quoted(str(error).partition("/{")[0])
