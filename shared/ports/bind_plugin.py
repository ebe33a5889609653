"""Plugins of users that act when a pod is bound: the class they extend, and what they are given.

They are no part of a decision, so they may wait, ask others and read clocks. What they come to is
recorded. If the process ends first they run again, so they have to bear running twice for a pod.
"""

from typing import ClassVar

from shared.model.objects import PodSpec
from shared.scheduling.api.custom import METHODS, Plugin, Pod

TIMEOUT_S = 60.0


class BoundPod(Pod):
    """A pod that is being bound: what the plugin reads of it, and who it is."""

    __slots__ = ("name", "namespace", "uid")

    def __init__(
        self, spec: PodSpec, reads: tuple[str, ...], namespace: str, name: str, uid: str
    ) -> None:
        super().__init__(spec, reads)
        self.namespace, self.name, self.uid = namespace, name, uid


class BindPlugin(Plugin):
    """Extend it and write the methods you need; see docs/plugins.md. `reads` as of `Plugin`; a
    method that takes longer than `timeout_s` has failed. Pods that `permit` refuses wait for one of
    the events `wakes` (shared/model/cluster_event_kinds.py; None = any, empty = none).
    """

    timeout_s: ClassVar[float] = TIMEOUT_S
    wakes: ClassVar[tuple[str, ...] | None] = None

    async def permit(self, pod: BoundPod, node: str) -> str | None:
        """Whether the pod may have this node: why not, or None. It may take as long as `timeout_s`,
        with the pod's place held; it is cancelled when the pod no longer waits.
        """
        raise NotImplementedError

    async def pre_bind(self, pod: BoundPod, node: str) -> str | None:
        """What is to be done before the pod is bound to this node; why it may not be, or None."""
        raise NotImplementedError

    async def bind(self, pod: BoundPod, node: str) -> bool | str:
        """Bind the pod: True = it is bound, False = the next plugin shall, a text = why not."""
        raise NotImplementedError

    async def post_bind(self, pod: BoundPod, node: str) -> None:
        """The pod is bound. Nobody waits for an answer."""
        raise NotImplementedError

    @classmethod
    def has(cls, method: str) -> bool:
        """Whether the plugin has this method."""
        return getattr(cls, method, None) is not getattr(BindPlugin, method, None)

    @classmethod
    def pure(cls) -> tuple[str, ...]:
        """Methods of it that would decide something."""
        return tuple(name for names in METHODS.values() for name in names if cls._decides(name))

    @classmethod
    def _decides(cls, method: str) -> bool:
        return hasattr(Plugin, method) and cls.has(method)
