"""Plugins of users before the queue: whether a pod may be queued yet, and what the queue goes by.

They know no nodes, so what they say holds for all pods of a signature for as long as it is in use.
"""

from collections.abc import Mapping, Sequence
from operator import index

from shared.model.objects import PodSpec
from shared.model.profile import CustomPlugin
from shared.scheduling.api.custom import Plugin, Pod, registered
from shared.scheduling.api.custom_steps import asked, word_of

ORDER_MAX = 1 << 62


class QueuePlugins:
    """What preEnqueue says for pods of each scheduler, and queueSort for those of all."""

    def __init__(
        self, gating: Mapping[str, Sequence[CustomPlugin]], sorting: CustomPlugin | None
    ) -> None:
        """Raises PluginMissing."""
        self._gating = {
            name: [registered(one) for one in plugins] for name, plugins in gating.items()
        }
        self._sorting = None if sorting is None else registered(sorting)

    def order(self, spec: PodSpec) -> int:
        """What the queue goes by, the highest first: the priority where the plugin fails."""
        plugin = self._sorting
        if plugin is None:
            return spec.priority
        found, wrong = asked(plugin, lambda: _order(plugin, spec))
        return spec.priority if wrong else int(found)

    def gate(self, spec: PodSpec) -> str:
        """Who says why pods may not be queued yet; "" = they may. A plugin that fails does not
        know, and nobody is let in by mistake.
        """
        for plugin in self._gating.get(spec.scheduler, ()):
            said, wrong = word_of(plugin, "pre_enqueue", spec)
            if wrong or said is not None:
                return wrong or f"{plugin.name}: {said}"
        return ""


def _order(plugin: Plugin, spec: PodSpec) -> int:
    """The plugin's answer. Raises TypeError or ValueError for what is not such a number."""
    found = index(plugin.queue_sort(Pod(spec, plugin.reads)))
    if not -ORDER_MAX < found < ORDER_MAX:
        raise ValueError(f"queue_sort gave {found}")
    return found
