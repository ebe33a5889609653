"""Binds pods for kube-scheduler. Between the check and the charge nothing else happens, so two pods
never get the same room.

    read the pod --> check and charge it --> POST the binding --> the watch shows it
                                                  |    |
                                   refused: release    no answer: read the pod until it is settled
"""

import asyncio
import logging

import msgspec

from muster.extender.answers import why_not
from muster.extender.view import ClusterView
from muster.extender.wire import ExtenderBindingArgs, UnreadablePod
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.http_wire import NotSent
from shared.kubernetes.objects.structs import RawPod
from shared.kubernetes.writing.answers import NOT_FOUND, bind_answer
from shared.kubernetes.writing.bodies import binding
from shared.model.api_outcome import Answer
from shared.model.text import quoted
from shared.ports.cluster import BindRequest

SETTLE_INITIAL_S = 0.1
SETTLE_MAX_S = 5.0

log = logging.getLogger("muster.extender")


class NotBound(Exception):
    """Why a pod is not bound."""


class Binder:
    """Binds pods and follows those whose outcome is open."""

    def __init__(self, view: ClusterView, client: KubeClient) -> None:
        """Send nothing yet."""
        self._view, self._client = view, client
        self._settling: dict[str, asyncio.Task[None]] = {}
        # The requests of assumed pods, with the revision that they named.
        self._sent: dict[str, tuple[ExtenderBindingArgs, int]] = {}

    async def close(self) -> None:
        """Follow no pod any more. Idempotent."""
        tasks = list(self._settling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def bind(self, args: ExtenderBindingArgs) -> str:
        """Bind a pod; return why it is not bound, or nothing."""
        try:
            await self._bind(args)
        except (NotBound, UnreadablePod) as error:
            log.info(
                "%s/%s is not bound to %s: %s", args.PodNamespace, args.PodName, args.Node, error
            )
            return str(error)
        return ""

    async def _bind(self, args: ExtenderBindingArgs) -> None:
        name = f"pod {args.PodNamespace}/{args.PodName}"
        try:
            pod = await self._read(args)
        except (OSError, TimeoutError) as error:
            raise NotBound(f"{name} cannot be read: {error}") from error
        if pod is None:
            raise NotBound(f"{name} with uid {args.PodUID} does not exist any more")
        if pod.spec.nodeName == args.Node:
            return
        if pod.spec.nodeName:
            raise NotBound(f"{name} is on node {pod.spec.nodeName} already")
        if args.PodUID in self._view.assumed:
            raise NotBound(f"the outcome of the last bind of {name} is not known yet")
        refused = why_not(self._view, pod, args.Node)
        if refused:
            raise NotBound(f"{name} does not fit node {args.Node} any more: {refused}")
        self._view.assume(pod, args.Node)
        await self._post(args, int(pod.metadata.resourceVersion))

    async def _read(self, args: ExtenderBindingArgs) -> RawPod | None:
        """Return the present pod, None if it is gone. Raises ConnectionError, TimeoutError."""
        response = await self._client.request("GET", _path(args))
        if response.status == NOT_FOUND:
            return None
        if not response.ok:
            raise ConnectionError(quoted(response.message()))
        pod = msgspec.json.decode(response.body, type=RawPod)
        return pod if pod.metadata.uid == args.PodUID else None

    async def _post(self, args: ExtenderBindingArgs, revision: int) -> None:
        """POST the binding of an assumed pod. Raises NotBound."""
        uid = args.PodUID
        self._sent = {one: sent for one, sent in self._sent.items() if one in self._view.assumed}
        self._sent[uid] = args, revision
        request = BindRequest(uid, args.PodNamespace, args.PodName, args.Node, revision)
        try:
            response = await self._client.request(
                "POST", f"{_path(args)}/binding", binding(request)
            )
        except NotSent as error:
            self._view.forget(uid)
            raise NotBound(f"cannot connect: {error}") from error
        except (OSError, TimeoutError) as error:
            self._settle_later(uid)
            raise NotBound(f"no answer to the bind: {error!r}") from error
        answer = bind_answer(response)
        if answer is Answer.DONE:
            return
        if answer is Answer.UNKNOWN:
            self._settle_later(uid)
        else:
            self._view.forget(uid)
        raise NotBound(quoted(response.message()))

    def settle_all(self) -> None:
        """Find out about all assumed pods: a list does not show what happened before it."""
        for uid in self._view.assumed:
            self._settle_later(uid)

    def _settle_later(self, uid: str) -> None:
        """Read an assumed pod until it is known whether its bind has landed."""
        if uid not in self._settling:
            task = asyncio.get_running_loop().create_task(self._settle(*self._sent[uid]))
            self._settling[uid] = task
            task.add_done_callback(lambda _task: self._settling.pop(uid, None))

    async def _settle(self, args: ExtenderBindingArgs, revision: int) -> None:
        wait_s = SETTLE_INITIAL_S
        while args.PodUID in self._view.assumed:
            await asyncio.sleep(wait_s)
            wait_s = min(SETTLE_MAX_S, 2 * wait_s)
            try:
                pod = await self._read(args)
            except (OSError, TimeoutError):
                continue
            if pod is not None and pod.spec.nodeName == args.Node:
                return  # the watch will show it
            # Without a node, a pod of a newer revision cannot be bound by the old request.
            changed = pod is not None and int(pod.metadata.resourceVersion) > revision
            if pod is None or pod.spec.nodeName or changed:
                self._view.forget(args.PodUID)


def _path(args: ExtenderBindingArgs) -> str:
    return f"/api/v1/namespaces/{args.PodNamespace}/pods/{args.PodName}"
