"""Planted bugs that only cases of rare_fields.py can show."""

from tests.simulation.planted import Bug

NODE_NAME, MESSAGES = (
    "shared.scheduling.plugins.node_name",
    "services.queueing.core.waiting.messages",
)
BUGS = (
    Bug("named-node-alone-refuses", NODE_NAME, ("np.ones", "np.zeros")),
    Bug("a-node-that-is-gone-takes-it", NODE_NAME, ("if row is not None", "if row is None")),
    Bug("gates-with-commas", MESSAGES, ("' '.join(names)", "', '.join(names)")),
)
