"""The image's software bill of materials, in CycloneDX 1.6."""

import hashlib
import platform
import uuid
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any


def bill_of(version: str, packages: Path, libraries: Iterable[Path]) -> dict[str, Any]:
    """Return the bill: the interpreter, each installed package, each library of the system."""
    interpreter = {
        "type": "platform",
        "bom-ref": "python",
        "name": "CPython",
        "version": platform.python_version(),
        "licenses": [{"license": {"id": "PSF-2.0"}}],
    }
    found = sorted(distributions(path=[str(packages)]), key=lambda one: one.name.lower())
    components = [interpreter, *map(_package, found), *map(_library, libraries)]
    # The same parts have the same number.
    number = hashlib.sha256(repr((version, components)).encode()).hexdigest()[:32]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(number, version=5)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "muster",
                "name": "muster",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": "muster", "dependsOn": [one["bom-ref"] for one in components]},
        ],
    }


def _package(one: Distribution) -> dict[str, Any]:
    name = one.name.lower().replace("_", "-")
    purl = f"pkg:pypi/{name}@{one.version}"
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": one.version,
        "purl": purl,
    }
    if "License-Expression" in one.metadata:
        found["licenses"] = [{"expression": one.metadata["License-Expression"]}]
    return found


def _library(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {
        "type": "library",
        "bom-ref": f"file:{path.name}",
        "name": path.name,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }
