"""Where log lines go: the product's own to standard error, those of libraries nowhere.

Libraries' warnings repeat what our errors say in one line; MUSTER_LOG=debug shows them too.
"""

import logging
import os

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up() -> None:
    """Once per process, before anything runs."""
    if os.environ.get("MUSTER_LOG", "").lower() == "debug":
        logging.basicConfig(level=logging.DEBUG, format=FORMAT)
        return
    logging.basicConfig(handlers=[logging.NullHandler()])
    ours = logging.getLogger("muster")
    if not ours.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(FORMAT))
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)
        ours.propagate = False
