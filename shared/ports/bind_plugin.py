"""Users' plugins that act when a pod is bound: their base class and its arguments.

They are not part of a decision, so they may wait, call others and read clocks. Their results are
recorded. If the process ends first they run again, so they must be idempotent.
"""

from typing import ClassVar

from shared.model.objects import PodSpec
from shared.scheduling.api.custom.plugin import METHODS, Plugin, Pod

TIMEOUT_S = 60.0


class BoundPod(Pod):
    """A pod that is being bound: the fields that the plugin reads, and its identity."""

    __slots__ = ("name", "namespace", "uid")

    def __init__(
        self, spec: PodSpec, reads: tuple[str, ...], namespace: str, name: str, uid: str
    ) -> None:
        super().__init__(spec, reads)
        self.namespace, self.name, self.uid = namespace, name, uid


class BindPlugin(Plugin):
    """Extend it with the methods you need (docs/reference/plugins.md). `reads` is as in `Plugin`; a
    method that takes longer than `timeout_s` has failed. Pods that `permit` rejects wait for one of
    the events `wakes` (shared/model/cluster_event_kinds.py; None: any, empty: none).
    """

    timeout_s: ClassVar[float] = TIMEOUT_S
    wakes: ClassVar[tuple[str, ...] | None] = None

    async def permit(self, pod: BoundPod, node: str) -> str | None:
        """Return why the pod may not have this node, or None. It may take up to `timeout_s`, while
        the pod's place is kept; it is cancelled if the pod no longer waits.
        """
        raise NotImplementedError

    async def pre_bind(self, pod: BoundPod, node: str) -> str | None:
        """Prepare the bind to this node; return why the pod may not be bound, or None."""
        raise NotImplementedError

    async def bind(self, pod: BoundPod, node: str) -> bool | str:
        """Bind the pod: True: bound; False: leave it to the next plugin; a text: why not."""
        raise NotImplementedError

    async def post_bind(self, pod: BoundPod, node: str) -> None:
        """React to a bound pod. No service waits for an answer."""
        raise NotImplementedError

    @classmethod
    def has(cls, method: str) -> bool:
        """Return whether the plugin has this method."""
        return getattr(cls, method, None) is not getattr(BindPlugin, method, None)

    @classmethod
    def pure(cls) -> tuple[str, ...]:
        """Return its methods that would decide something."""
        return tuple(name for names in METHODS.values() for name in names if cls._decides(name))

    @classmethod
    def _decides(cls, method: str) -> bool:
        return hasattr(Plugin, method) and cls.has(method)
