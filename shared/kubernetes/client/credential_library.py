"""kubernetes-asyncio's reader of credentials without its models, which are not used here.

Its packages import a class for each object of every API: 1.4 s of processor time and 70 MiB.
"""

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any, NamedTuple

PACKAGES = ("kubernetes_asyncio", "kubernetes_asyncio.client")
"""The packages that import the models, the outer one first."""


class Library(NamedTuple):
    """The module `kubernetes_asyncio.config`, and the class that it fills in."""

    config: Any
    Configuration: Any


@cache
def library() -> Library:
    """Return the reader. Empty packages stand in for `PACKAGES` while it is imported, unless they
    are imported already; later importers get the whole packages.
    """
    stand_ins = [] if PACKAGES[0] in sys.modules else [*PACKAGES]
    try:
        for name in stand_ins:
            spec = find_spec(name)
            assert spec is not None, f"{name} is a requirement"
            sys.modules[name] = module_from_spec(spec)
        configuration = import_module("kubernetes_asyncio.client.configuration").Configuration
        if stand_ins:
            # The reader's modules import both names; only functions that we never call make a
            # client.
            vars(sys.modules[PACKAGES[1]]).update(Configuration=configuration, ApiClient=None)
        return Library(import_module("kubernetes_asyncio.config"), configuration)
    finally:
        for name in stand_ins:
            sys.modules.pop(name, None)
