"""Fixtures of the live tests: a control plane that modules share one after the other, or one of a
module's own.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from shared.model.release import V1_37
from tests.live.support.case import Case
from tests.live.support.shared_cluster import SharedCluster
from tests.support.etcd_history import EtcdHistory
from tests.support.kube_credentials import User
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import INSTALL_COMMAND, KubeServers, missing_parts
from tests.support.required_tools import require_tool

NewCluster = Callable[..., KubeServers]


def require_kube(version: str = V1_37) -> None:
    """Skip, or fail in CI, where the servers are not built; the message names the missing ones."""
    missing = missing_parts(version)
    require_tool(", ".join(missing) or "kube-apiserver", INSTALL_COMMAND, found=not missing)


@pytest.fixture(scope="module")
def new_cluster() -> Iterator[NewCluster]:
    """`new_cluster(KubeOptions(...), users=[...])`: running servers that end with the module."""
    with ExitStack() as stack:

        def start(options: KubeOptions | None = None, *, users: Sequence[User] = ()) -> KubeServers:
            require_kube((options or KubeOptions()).version)
            return stack.enter_context(KubeServers(options, users=users))

        yield start


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[SharedCluster]:
    """The servers of `cluster`."""
    require_kube()
    shared = SharedCluster()
    yield shared
    shared.stop()


@pytest.fixture(scope="module")
def cluster(shared_cluster: SharedCluster) -> KubeServers:
    """A cluster of etcd, which stores JSON, and the API server. It is empty when the module begins,
    and no module may end or change these two: that takes a `new_cluster`.
    """
    return shared_cluster.emptied()


@pytest.fixture(scope="module")
def history(servers: KubeServers) -> Iterator[EtcdHistory]:
    """Of the module's own `servers`, which store JSON, from their start on."""
    with EtcdHistory(servers.at.etcd_url) as history:
        yield history


@pytest.fixture
def case(servers: KubeServers, history: EtcdHistory) -> Case:
    """What the checker checks of one test."""
    return Case(servers, history)
