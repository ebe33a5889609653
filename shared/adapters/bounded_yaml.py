"""The single entry for YAML: text to plain values, with bounds on depth and on the size of aliases.

libyaml's composer recurses for each level, so deeply nested text would end the process silently.
Aliases make a few lines stand for more values than fit any memory. Both are found while the text is
composed, before a value is made of it.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from shared.kubernetes.objects.errors import shown

DEPTH_MAX = 100
# As in go-yaml, which kubectl uses: few aliases may stand for much, many for ten times the text.
EXPANDED_MAX = 4_000_000
EXPANDED_TIMES_MAX = 10
_ALIAS = re.compile(r"\*[0-9A-Za-z_-]")


class YamlError(ValueError):
    """Text that is not readable as YAML; the message has the line if it is known."""


class BeyondBounds(YamlError):
    """YAML that nests too deeply, or whose aliases are too large."""


class _Loader(yaml.CSafeLoader):
    """A safe loader that refuses duplicate keys and YAML beyond the bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        # Without an alias a document cannot be larger than its text: most documents are not
        # measured.
        self._expanded_max = 0
        if _ALIAS.search(text):
            self._expanded_max = max(EXPANDED_MAX, EXPANDED_TIMES_MAX * len(text))

    def descend_resolver(self, current_node: yaml.Node, current_index: Any) -> None:
        """Called by the composer before each node, with the node that contains it."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BeyondBounds(f"{_line(current_node)}: nests deeper than {DEPTH_MAX} levels")

    def ascend_resolver(self) -> None:
        """Called by the composer after each node."""
        self._depth -= 1

    def construct_document(self, node: yaml.Node) -> Any:
        """Return the value of a document within the bounds."""
        if self._expanded_max:
            _Aliases(self._expanded_max).expand(node)
        return super().construct_document(node)


class _Aliases:
    """Counts the characters and values of a document with all aliases expanded."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        # Size and height by node; None while the node is still being counted.
        self._seen: dict[int, tuple[int, int] | None] = {}

    def expand(self, node: yaml.Node) -> tuple[int, int]:
        """Return a node's size and height. A node comes before its aliases, so the recursion is no
        deeper than the text nests.
        """
        if isinstance(node, yaml.ScalarNode):
            return 1 + len(node.value), 1
        known = self._seen.get(id(node), ())
        if known is None:
            raise BeyondBounds(f"{_line(node)}: holds an alias of itself")
        if known:
            return known
        self._seen[id(node)] = None
        size, height = 1, 0
        for child in _children(node):
            child_size, child_height = self.expand(child)
            size, height = size + child_size, max(height, child_height)
        if size > self._size_max:
            raise BeyondBounds(
                f"{_line(node)}: its aliases stand for more than {self._size_max:,} characters"
            )
        if height >= DEPTH_MAX:
            raise BeyondBounds(
                f"{_line(node)}: nests deeper than {DEPTH_MAX} levels by its aliases"
            )
        self._seen[id(node)] = size, height + 1
        return size, height + 1


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    for child in node.value:
        if isinstance(child, tuple):
            yield from child
        else:
            yield child


def _line(node: yaml.Node | None) -> str:
    return f"line {node.start_mark.line + 1}" if node is not None else "line 1"


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    loader.flatten_mapping(node)
    found: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str | int | float | bool | None):
            raise YamlError(f"{_line(key_node)}: a key must be text")
        if key in found:
            raise YamlError(f"{_line(key_node)}: {shown(key)} is a duplicate")
        found[key] = loader.construct_object(value_node, deep=True)
    return found


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_all(text: str) -> list[Any]:
    """Return the values of all documents. Raises YamlError."""
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except YamlError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(f"cannot be decoded: {error}") from error


def dump_all(values: Iterable[Any]) -> str:
    """Return a YAML document for each value, with keys in the order in which they were set."""
    return str(yaml.dump_all(values, Dumper=yaml.CSafeDumper, sort_keys=False, explicit_start=True))


def check_file(path: Path) -> None:
    """Check the bounds of a file. Raises YamlError, OSError, UnicodeDecodeError."""
    check(path.read_text(encoding="utf-8"))


def check(text: str) -> None:
    """Check only the bounds, for text that a library reads. Raises YamlError."""
    loader = _Loader(text)
    aliases = _Aliases(max(EXPANDED_MAX, EXPANDED_TIMES_MAX * len(text)))
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            aliases.expand(node)
    except yaml.YAMLError as error:
        raise YamlError(f"cannot be decoded: {error}") from error
    finally:
        loader.dispose()
