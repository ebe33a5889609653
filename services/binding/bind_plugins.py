"""Runs users' plugins and binding extenders at a bind, beside the requests, many pods at a time.

An answer is definite: done, or a text that says why not. A plugin that raises or takes too long has
failed. In `bind` a failure leaves the outcome open, so the pod is read back.
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
from shared.scheduling.api.custom.failures import count_answer, count_error
from shared.scheduling.api.custom.plugin import registered

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
    """The outcome of a bind, with the reason of a failure. None: DefaultBinder binds the pod, or
    the cluster does not show the bind yet.
    """

    answer: Answer | None
    text: str = ""


class Refusal(NamedTuple):
    """Why a pod may not continue, in kube-scheduler's words (empty: it may); the Permit plugin that
    rejected it; whether a plugin failed instead.
    """

    text: str = ""
    plugin: str = ""
    error: bool = False


class BindPluginRunner:
    """Runs the plugins and extenders of the configuration, which comes with each call."""

    def __init__(self, binders: Binders | None = None) -> None:
        self._room = asyncio.Semaphore(AT_ONCE)
        self._binders = binders

    @staticmethod
    def binds(config: Config, spec: PodSpec) -> bool:
        """Return whether a plugin or extender may bind such pods instead of DefaultBinder."""
        return spec.scheduler in config.bind or _binder(config, spec) is not None

    async def permit(self, config: Config, spec: PodSpec, ref: PodRef, node: str) -> Refusal:
        """Return why the pod may not have the node. All plugins and all pods are asked in parallel,
        because one pod may wait for another.
        """
        plugins = config.permit.get(spec.scheduler, ())
        asked = [asyncio.ensure_future(self._permitted(one, spec, ref, node)) for one in plugins]
        try:
            for answer in asyncio.as_completed(asked):
                found = await answer
                if found.text:
                    return found
            return Refusal()
        finally:
            for one in asked:
                one.cancel()

    async def _permitted(self, one: CustomPlugin, spec: PodSpec, ref: PodRef, node: str) -> Refusal:
        answer, error = await self._asked(one, "permit", spec, ref, node, nullcontext())
        if error == DEADLINE:
            plugin = registered(one)
            assert isinstance(plugin, BindPlugin)
            waited = _go_duration(plugin.timeout_s)
            answer = f"rejected due to timeout after waiting {waited} at plugin {one.name}"
            error = ""
        if error or answer is None:
            return _failure(one, PERMIT, error)
        return Refusal(f"0/1 nodes are available: 1 {answer or one.name}.", one.name)

    async def pre_bind(self, config: Config, spec: PodSpec, ref: PodRef, node: str) -> Refusal:
        """Return why the pod may not be bound. The plugin's name is not reported: as in
        kube-scheduler, no event changes a PreBind rejection.
        """
        for one in config.pre_bind.get(spec.scheduler, ()):
            answer, error = await self._asked(one, "pre_bind", spec, ref, node, self._room)
            if error:
                return _failure(one, PRE_BIND, error)
            if answer is not None:
                return Refusal(answer or one.name)
        return Refusal()

    async def bind(self, config: Config, spec: PodSpec, ref: PodRef, node: str) -> Outcome:
        """Bind by the extender, or else by plugins. An extender that may be ignored leaves the bind
        to the plugins if it fails.
        """
        binder = _binder(config, spec)
        if binder is not None:
            assert self._binders is not None, f"no client for extender {binder.url}"
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
            answer, error = await self._asked(one, "bind", spec, ref, node, self._room)
            if error:
                return Outcome(Answer.UNKNOWN)
            if isinstance(answer, str):
                log.warning("plugin %s does not bind %s: %s", one.name, ref.name, quoted(answer))
                text = f'running Bind plugin "{one.name}": {answer}'
                return Outcome(Answer.REFUSED, text[:TEXT_MAX])
            if answer:
                return self._bound()
        return Outcome(None)

    def _bound(self) -> Outcome:
        """Return the outcome of a bind that an extender or plugin reports: the pod is read back. A
        simulated cluster does not show it yet, so DefaultBinder's request follows.
        """
        writes = self._binders is not None and self._binders.writes
        return Outcome(Answer.ASSIGNED if writes else None)

    async def post_bind(self, config: Config, spec: PodSpec, ref: PodRef, node: str) -> None:
        """Call all PostBind plugins; count and log failures."""
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
        """Return the plugin's answer and its error text."""
        plugin: Any = None
        try:
            plugin = registered(one)
            assert isinstance(plugin, BindPlugin), f"{one.name} is no BindPlugin"
            pod = BoundPod(spec, plugin.reads, ref.namespace, ref.name, ref.uid)
            async with room, asyncio.timeout(plugin.timeout_s):
                answer = await getattr(plugin, method)(pod, node)
            if not isinstance(answer, ANSWERS[method]):
                raise TypeError(f"{method} gave {type(answer).__name__}")
            return answer, ""
        except TimeoutError:
            error = DEADLINE
            count_answer(plugin, method, DEADLINE)
        except Exception as raised:  # an error in a user's plugin must not end binding
            text = str(raised).partition("\n")[0][:TEXT_MAX]
            error = f"{type(raised).__name__}: {text}"
            if plugin is not None:
                count_error(plugin, method, raised)
        log.warning("plugin %s failed for pod %s: %s", one.name, ref.name, quoted(error))
        return None, error


def _go_duration(seconds: float) -> str:
    """Return the duration as Go formats it."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"


def _failure(one: CustomPlugin, point: str, error: str) -> Refusal:
    """Return the refusal with kube-scheduler's text for a plugin error, if there was one."""
    if not error:
        return Refusal()
    return Refusal(f'running {point} plugin "{one.name}": {error}', error=True)


def _binder(config: Config, spec: PodSpec) -> Extender | None:
    """Return the extender that binds such pods, or None."""
    binder = config.binder
    return binder if binder is not None and binder.binds(spec) else None
