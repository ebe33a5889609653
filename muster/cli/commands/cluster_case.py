"""What a live cluster holds now, for `muster score --kubeconfig`: lists, and nothing else."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muster.app.event_loop import loop_factory
from muster.cli.addresses.kube import kube_cluster
from muster.cli.errors import Fault, UsageFault
from shared.events.base import Event
from shared.kubernetes.client.client import ApiError, KubeClient
from shared.kubernetes.client.credentials import KubeconfigError
from shared.kubernetes.client.discovery import served
from shared.kubernetes.client.kinds import OTHER_KINDS
from shared.kubernetes.watching.lists import list_into
from shared.kubernetes.watching.resources import BUDGETS_PATH, NODES_PATH, PODS_PATH, UNFINISHED

Document = dict[str, Any]


class _Documents:
    """A reader that keeps a list's objects as they are, with the kind that a list leaves out."""

    item = Document

    def __init__(self, kind: str, version: str) -> None:
        self.kind, self._version = kind, version
        self.found: list[Document] = []

    def seen(self, item: Document) -> None:
        """Keep an object."""
        self.found.append({**item, "apiVersion": self._version, "kind": self.kind})

    def forget(self) -> None:
        """Drop what was kept: the list begins again."""
        self.found.clear()

    def gone(self, item: Document) -> None:
        """Lists hold no deleted objects."""

    def reject(self, what: str, field: str, rule: str) -> None:
        """Every object of JSON can be kept."""

    def is_urgent(self) -> bool:
        """Return False: nothing waits for a list."""
        return False

    def drain(self) -> list[Event]:
        """Return nothing: no service asks."""
        return []


def objects_in(kubeconfig: str) -> list[Document]:
    """Return all objects of a cluster that scheduling depends on, with apiVersion and kind.
    Finished pods are left out. Raises UsageFault, Fault.
    """
    client = kube_cluster(kubeconfig, ()).client

    async def read() -> list[Document]:
        try:
            return await list_objects(client)
        finally:
            await client.close()

    with asyncio.Runner(loop_factory=loop_factory()) as loop:
        return loop.run(read())


async def list_objects(client: KubeClient) -> list[Document]:
    """Return the same by a client, which stays open. Raises UsageFault, Fault."""
    lists = [
        (NODES_PATH, "", _Documents("Node", "v1")),
        (PODS_PATH, UNFINISHED, _Documents("Pod", "v1")),
        (BUDGETS_PATH, "", _Documents("PodDisruptionBudget", "policy/v1")),
    ]
    with _faults():
        await client.open()
        for kind in await served(client, OTHER_KINDS):
            version = f"{kind.group}/v1" if kind.group else "v1"
            lists.append((kind.path, "", _Documents(kind.name, version)))
        for path, query, documents in lists:
            await list_into(client, path, query, documents)
    return [one for _path, _query, documents in lists for one in documents.found]


@contextmanager
def _faults() -> Iterator[None]:
    """Raise UsageFault, Fault in place of a client's errors."""
    try:
        yield
    except KubeconfigError as error:
        raise UsageFault(f"--kubeconfig {error}") from error
    except ApiError as error:
        raise Fault(f"the cluster refuses a list: {error}") from error
    except (OSError, TimeoutError) as error:
        raise Fault(f"the cluster does not answer: {error}") from error
