"""Users' queue plugins (PreEnqueue, QueueSort): whether a pod may be queued, and its order.

They know no nodes, so their answer holds for all pods of a signature while it is in use.
"""

from collections.abc import Mapping, Sequence
from operator import index

from shared.model.objects import PodSpec
from shared.model.profile import CustomPlugin
from shared.scheduling.api.custom.plugin import Plugin, Pod, registered
from shared.scheduling.api.custom.steps import asked, word_of

ORDER_MAX = 1 << 62


class QueuePlugins:
    """The PreEnqueue plugins of each scheduler, and the QueueSort plugin of all."""

    def __init__(
        self, gating: Mapping[str, Sequence[CustomPlugin]], sorting: CustomPlugin | None
    ) -> None:
        """Load the plugins. Raises PluginMissing."""
        self._gating = {
            name: [registered(one) for one in plugins] for name, plugins in gating.items()
        }
        self._sorting = None if sorting is None else registered(sorting)

    def order(self, spec: PodSpec) -> int:
        """Return the queue order, the highest first: the priority if the plugin fails."""
        plugin = self._sorting
        if plugin is None:
            return spec.priority
        found, wrong = asked(plugin, "queue_sort", lambda: _order(plugin, spec))
        return spec.priority if wrong else int(found)

    def gate(self, spec: PodSpec) -> str:
        """Return which plugin says why pods may not be queued yet; empty: they may. If a plugin
        fails the pods stay gated.
        """
        for plugin in self._gating.get(spec.scheduler, ()):
            answer, wrong = word_of(plugin, "pre_enqueue", spec)
            if wrong or answer is not None:
                return wrong or f"{plugin.name}: {answer}"
        return ""


def _order(plugin: Plugin, spec: PodSpec) -> int:
    """Return the plugin's answer. Raises TypeError or ValueError if it is no valid number."""
    found = index(plugin.queue_sort(Pod(spec, plugin.reads)))
    if not -ORDER_MAX < found < ORDER_MAX:
        raise ValueError(f"queue_sort gave {found}")
    return found
