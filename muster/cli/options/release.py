"""The kube-scheduler that decisions follow: as the command line says, or as the API server is."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from muster.cli.errors import UsageFault, one_of
from shared.model.release import DEFAULT_OPTIONS, V1_35, VERSIONS, ReleaseOptions, release

log = logging.getLogger("muster.release")

SERVICES = ("placement", "queueing", "preemption")
"""The services with the options `compatibility` and `feature_gates`."""


@dataclass(frozen=True)
class AskedRelease:
    """What the command line says: an empty `version` leaves it to the API server."""

    version: str = ""
    gates: Mapping[str, bool] = field(default_factory=dict)

    def chosen(self, kubeconfig: str = "") -> ReleaseOptions:
        """Return the release. A live cluster is asked for its version unless one is given. Raises
        UsageFault, Fault.
        """
        if self.version or not kubeconfig:
            return _options(self.version or V1_35, self.gates)
        # Imported here: a world needs no client.
        from muster.cli.addresses.kube import server_version

        return _options(nearest(server_version(kubeconfig)), self.gates)


NOTHING_ASKED = AskedRelease()


def asked_release(version: str, gates: str) -> AskedRelease:
    """Return what `--compatibility-version` and `--feature-gates NAME=true,...` say. Raises
    UsageFault.
    """
    if version:
        one_of("--compatibility-version", version, VERSIONS)
    found: dict[str, bool] = {}
    for setting in filter(None, map(str.strip, gates.split(","))):
        name, _, value = setting.partition("=")
        if value.lower() not in ("true", "false"):
            raise UsageFault(f"--feature-gates {setting}: must be NAME=true or NAME=false")
        found[name] = value.lower() == "true"
    asked = AskedRelease(version, found)
    if version:
        asked.chosen()
    return asked


def nearest(server: str) -> str:
    """Return the known version nearest to a server's, with a warning where it is another one."""
    numbers = [tuple(map(int, known.split("."))) for known in VERSIONS]
    major, minor = map(int, server.split("."))
    if (major, minor) in numbers:
        return server
    known = VERSIONS[-1] if (major, minor) > numbers[-1] else VERSIONS[0]
    log.warning(
        "the API server is of Kubernetes %s: pods are scheduled as by kube-scheduler %s "
        "(known are %s; --compatibility-version chooses)",
        server,
        known,
        ", ".join(VERSIONS),
    )
    return known


def with_release(options: Mapping[str, Any], chosen: ReleaseOptions) -> dict[str, Any]:
    """Return the services' options with those of a release; an option that is set wins."""
    own = msgspec.to_builtins(chosen)
    usual = msgspec.to_builtins(DEFAULT_OPTIONS)
    more = {name: value for name, value in own.items() if value != usual[name]}
    if not more:
        return dict(options)
    return {**options, **{service: more | options.get(service, {}) for service in SERVICES}}


def _options(version: str, gates: Mapping[str, bool]) -> ReleaseOptions:
    try:
        release(version, gates)
    except ValueError as error:
        raise UsageFault(f"--feature-gates: {error}") from error
    return ReleaseOptions(compatibility=version, feature_gates=dict(gates))
