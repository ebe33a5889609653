"""The syntax of label names and values, as an API server checks it."""

import re

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PREFIX_MAX = 253


def is_label_name(text: str) -> bool:
    """Return whether a text is a label name, with or without a prefix."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > _PREFIX_MAX or not _PREFIX.fullmatch(prefix)):
        return False
    return bool(_NAME.fullmatch(name))


def is_label_value(text: str) -> bool:
    """Return whether a text is a label value; an empty one is."""
    return not text or bool(_NAME.fullmatch(text))
