"""Splits files of Kubernetes manifests into single objects with their place; it knows YAML, JSON
and lists.

Multi-document YAML, JSON and `List` objects are split in the order they are written, files in the
order of their names. A key written twice in one object is an error, not "the last wins".
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shared.adapters import bounded_yaml
from shared.adapters.bounded_yaml import YamlError
from shared.kubernetes.objects.errors import WorldError, shown
from shared.kubernetes.objects.fields import Fields

SUFFIXES = (".json", ".yaml", ".yml")
FILE_BYTES_MAX = 256 << 20
RUN_FILE = "journals.db"


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
        elif path.is_file():
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


def read_objects(path: Path) -> Iterator[Fields]:
    """Yield every object of one file."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise WorldError(str(path), "", f"is larger than {FILE_BYTES_MAX >> 20} MiB")
        text = path.read_text(encoding="utf-8")
        documents = _decode(path, text)
    except OSError as error:
        raise WorldError(str(path), "", f"cannot be read: {error.strerror}") from error
    except WorldError:
        raise
    except (YamlError, _DuplicateKey) as error:
        raise WorldError(str(path), "", str(error)) from error
    except (ValueError, RecursionError) as error:
        raise WorldError(str(path), "", f"cannot be decoded: {error}") from error
    for number, document in enumerate(documents, start=1):
        if document is not None:
            yield from _objects(f"{path} document {number}", document)


def _decode(path: Path, text: str) -> list[Any]:
    if path.suffix == ".json":
        return [json.loads(text, object_pairs_hook=_pairs)]
    return bounded_yaml.load_all(text)


def _objects(what: str, document: object) -> Iterator[Fields]:
    fields = Fields.root(what, document)
    kind = fields.required_text("kind")
    fields.required_text("apiVersion")
    if kind.endswith("List") and fields.has("items"):
        for item in fields.children("items"):
            yield from _objects(f"{what} {item.path}", item.values)
    else:
        yield fields
