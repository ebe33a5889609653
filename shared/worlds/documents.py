"""Splits files of Kubernetes manifests into single objects with their place; it knows YAML, JSON
and lists.

Multi-document YAML, streams of JSON and `List` objects are split in the order they are written,
files in the order of their names. `-` is standard input. A key written twice in one object is an
error, not "the last wins".
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shared.adapters import bounded_yaml
from shared.adapters.bounded_yaml import YamlError
from shared.kubernetes.objects.errors import WorldError, shown
from shared.kubernetes.objects.fields import Fields

SUFFIXES = (".json", ".yaml", ".yml")
FILE_BYTES_MAX = 256 << 20
RUN_FILE = "journals.db"
STDIN = Path("-")
_NO_BLANK = re.compile(r"[^ \t\r\n]")


class _DuplicateKey(Exception):
    pass


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKey(f"{shown(key)} is a duplicate")
        found[key] = value
    return found


def manifest_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files of the given folders (with subfolders) and the given files, each once.

    Hidden folders are skipped, and run folders, whose JSON files describe the run.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inner = sorted(_below(path))
            if not inner:
                raise WorldError(str(path), "", "holds no manifest (.yaml, .yml or .json)")
            found.extend(inner)
        elif path == STDIN or path.exists():
            found.append(path)
        else:
            raise WorldError(str(path), "", "does not exist")
    return list(dict.fromkeys(found))


def _below(folder: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(folder):
        where = Path(top)
        folders[:] = [
            name for name in folders if name[0] != "." and not (where / name / RUN_FILE).exists()
        ]
        yield from (where / name for name in files if Path(name).suffix in SUFFIXES)


def name_of(path: Path) -> str:
    """Return the name of a file for messages."""
    return "stdin" if path == STDIN else str(path)


def read_objects(path: Path) -> Iterator[Fields]:
    """Yield every object of one file."""
    for number, document in enumerate(read_documents(path), start=1):
        yield from objects_of(f"{name_of(path)} document {number}", document)


def read_documents(path: Path) -> list[Any]:
    """Return the documents of a file that are not empty. Raises WorldError."""
    what = name_of(path)
    try:
        text = _read(path)
        if len(text) > FILE_BYTES_MAX:
            raise WorldError(what, "", f"is larger than {FILE_BYTES_MAX >> 20} MiB")
        documents = _decode(path.suffix, text.decode())
    except OSError as error:
        raise WorldError(what, "", f"cannot be read: {error.strerror}") from error
    except WorldError:
        raise
    except (YamlError, _DuplicateKey) as error:
        raise WorldError(what, "", str(error)) from error
    except (ValueError, RecursionError) as error:
        raise WorldError(what, "", f"cannot be decoded: {error}") from error
    found = [document for document in documents if document is not None]
    if not found and path == STDIN:
        raise WorldError(what, "", "holds no object")
    return found


def _read(path: Path) -> bytes:
    """Return the bytes of a file, or one more than it may have."""
    if path == STDIN:
        return sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def _decode(suffix: str, text: str) -> list[Any]:
    """Return the documents of a text; without a known suffix it is JSON or YAML."""
    if suffix == ".json":
        return list(_json_documents(text))
    if suffix not in SUFFIXES and text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            return list(_json_documents(text))
    return bounded_yaml.load_all(text)


def _json_documents(text: str) -> Iterator[Any]:
    """Yield JSON values that follow each other, with blanks between them."""
    decoder = json.JSONDecoder(object_pairs_hook=_pairs)
    begin = _NO_BLANK.search(text)
    while begin is not None:
        value, end = decoder.raw_decode(text, begin.start())
        yield value
        begin = _NO_BLANK.search(text, end)


def objects_of(what: str, document: object) -> Iterator[Fields]:
    """Yield the objects of one document: itself, or those of a list."""
    fields = Fields.root(what, document)
    kind = fields.required_text("kind")
    fields.required_text("apiVersion")
    if kind.endswith("List") and fields.has("items"):
        for item in fields.children("items"):
            yield from objects_of(f"{what} {item.path}", item.values)
    else:
        yield fields
