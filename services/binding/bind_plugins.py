"""Plugins of users and extenders at a bind are run here, beside the requests, many pods at a time.

An answer is definite: done, or a text that says why not. A plugin that raises or takes too long has
failed. In `bind` that leaves open what came of the pod, which is then asked for again.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, nullcontext
from types import NoneType
from typing import Any, NamedTuple

from services.binding.core.config import Config
from shared.extenders.port import Binders
from shared.extenders.values import Extender
from shared.model.api_outcome import Answer
from shared.model.objects import PodSpec
from shared.model.profile import CustomPlugin
from shared.model.text import quoted
from shared.ports.bind_plugin import BindPlugin, BoundPod
from shared.ports.cluster import PodRef
from shared.scheduling.api.custom import registered

AT_ONCE = 256
DEADLINE = "context deadline exceeded"
TEXT_MAX = 500
PERMIT, PRE_BIND = "Permit", "PreBind"
ANSWERS: dict[str, tuple[type, ...]] = {
    "permit": (str, NoneType),
    "pre_bind": (str, NoneType),
    "bind": (bool, str),
    "post_bind": (object,),
}
log = logging.getLogger("muster.binding")


class Outcome(NamedTuple):
    """What came of a bind, and in words why it failed. None = it is DefaultBinder's, or the cluster
    does not know of it yet.
    """

    answer: Answer | None
    text: str = ""


class Refusal(NamedTuple):
    """Why a pod may not go on, in kube-scheduler's words (empty = it may); the permit plugin that
    says so; whether somebody failed instead.
    """

    text: str = ""
    plugin: str = ""
    error: bool = False


class Acting:
    """Runs what the configuration names, which is given with each question."""

    def __init__(self, binders: Binders | None = None) -> None:
        self._room = asyncio.Semaphore(AT_ONCE)
        self._binders = binders

    @staticmethod
    def binds(config: Config, spec: PodSpec) -> bool:
        """Whether anybody but DefaultBinder may want to bind such pods."""
        return spec.scheduler in config.bind or _binder(config, spec) is not None

    async def permit(self, config: Config, spec: PodSpec, ref: PodRef, node: str) -> Refusal:
        """Why the pod may not have the node. They are asked side by side, and so are all pods, for
        one may wait for another.
        """
        plugins = config.permit.get(spec.scheduler, ())
        asked = [asyncio.ensure_future(self._permitted(one, spec, ref, node)) for one in plugins]
        try:
            for said in asyncio.as_completed(asked):
                found = await said
                if found.text:
                    return found
            return Refusal()
        finally:
            for one in asked:
                one.cancel()

    async def _permitted(self, one: CustomPlugin, spec: PodSpec, ref: PodRef, node: str) -> Refusal:
        said, error = await self._asked(one, "permit", spec, ref, node, nullcontext())
        if error == DEADLINE:
            plugin = registered(one)
            assert isinstance(plugin, BindPlugin)
            waited = _go_duration(plugin.timeout_s)
            said = f"rejected due to timeout after waiting {waited} at plugin {one.name}"
            error = ""
        if error or said is None:
            return _failure(one, PERMIT, error)
        return Refusal(f"0/1 nodes are available: 1 {said or one.name}.", one.name)

    async def pre_bind(self, config: Config, spec: PodSpec, ref: PodRef, node: str) -> Refusal:
        """Why the pod may not be bound. The name of a plugin that says no is not told: nothing that
        happens makes it say something else, as in kube-scheduler.
        """
        for one in config.pre_bind.get(spec.scheduler, ()):
            said, error = await self._asked(one, "pre_bind", spec, ref, node, self._room)
            if error:
                return _failure(one, PRE_BIND, error)
            if said is not None:
                return Refusal(said or one.name)
        return Refusal()

    async def bind(self, config: Config, spec: PodSpec, ref: PodRef, node: str) -> Outcome:
        """An extender goes before all plugins; one that may be ignored leaves it to them when it
        fails.
        """
        binder = _binder(config, spec)
        if binder is not None:
            assert self._binders is not None, f"nobody asks extender {binder.url}"
            async with self._room:
                text = await self._binders.bind(binder, ref, node)
            if not text:
                return self._bound()
            log.warning("extender %s does not bind %s: %s", binder.url, ref.name, quoted(text))
            if not binder.ignorable:
                return Outcome(Answer.REFUSED, text[:TEXT_MAX])
        return await self._bind_by_plugin(config, spec, ref, node)

    async def _bind_by_plugin(
        self, config: Config, spec: PodSpec, ref: PodRef, node: str
    ) -> Outcome:
        for one in config.bind.get(spec.scheduler, ()):
            said, error = await self._asked(one, "bind", spec, ref, node, self._room)
            if error:
                return Outcome(Answer.UNKNOWN)
            if isinstance(said, str):
                log.warning("plugin %s does not bind %s: %s", one.name, ref.name, quoted(said))
                text = f'running Bind plugin "{one.name}": {said}'
                return Outcome(Answer.REFUSED, text[:TEXT_MAX])
            if said:
                return self._bound()
        return Outcome(None)

    def _bound(self) -> Outcome:
        """Somebody says so: whether the cluster shows it is looked at; a simulated one is told."""
        writes = self._binders is not None and self._binders.writes
        return Outcome(Answer.ASSIGNED if writes else None)

    async def post_bind(self, config: Config, spec: PodSpec, ref: PodRef, node: str) -> None:
        """All of them are told; what goes wrong is counted and logged."""
        for one in config.post_bind.get(spec.scheduler, ()):
            await self._asked(one, "post_bind", spec, ref, node, self._room)

    async def _asked(
        self,
        one: CustomPlugin,
        method: str,
        spec: PodSpec,
        ref: PodRef,
        node: str,
        room: AbstractAsyncContextManager[Any],
    ) -> tuple[Any, str]:
        """The answer, and what went wrong."""
        plugin: Any = None
        try:
            plugin = registered(one)
            assert isinstance(plugin, BindPlugin), f"{one.name} decides, and does not act"
            pod = BoundPod(spec, plugin.reads, ref.namespace, ref.name, ref.uid)
            async with room, asyncio.timeout(plugin.timeout_s):
                said = await getattr(plugin, method)(pod, node)
            if not isinstance(said, ANSWERS[method]):
                raise TypeError(f"{method} gave {type(said).__name__}")
            return said, ""
        except TimeoutError:
            error = DEADLINE
        except Exception as raised:  # whatever users write must not end binding
            text = str(raised).partition("\n")[0][:TEXT_MAX]
            error = f"{type(raised).__name__}: {text}"
        if plugin is not None:
            plugin.errors += 1
        log.warning("plugin %s failed for pod %s: %s", one.name, ref.name, quoted(error))
        return None, error


def _go_duration(seconds: float) -> str:
    """As Go writes it."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"


def _failure(one: CustomPlugin, point: str, error: str) -> Refusal:
    """As kube-scheduler has it in a pod's condition, if there was an error."""
    if not error:
        return Refusal()
    return Refusal(f'running {point} plugin "{one.name}": {error}', error=True)


def _binder(config: Config, spec: PodSpec) -> Extender | None:
    """The extender that binds such pods."""
    binder = config.binder
    return binder if binder is not None and binder.binds(spec) else None
