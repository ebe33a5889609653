"""Binding as a state machine: what was asked of the API, and what definitely came of it.

It decides nothing about pods. Every bind it is told to make ends in exactly one Bound or
BindFailed, and before a BindFailed it is certain that no POST of ours can land any more.
"""

from services.binding.core.config import Config, parse_config
from services.binding.core.core import BindingCore
from services.binding.core.state import BindingState

__all__ = ["BindingCore", "BindingState", "Config", "parse_config"]
