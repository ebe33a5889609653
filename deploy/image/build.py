"""Builds the image: `python -m deploy.image.build FOLDER` writes an OCI layout and the bill of
materials, and prints the digest. It needs Linux, pip and ldd, and no daemon.
"""

import argparse
import json
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from deploy.image import oci, root, sbom
from muster import __version__

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
BILL = "usr/share/sbom/muster.cdx.json"
STICKY = 0o1777


def build(folder: Path) -> str:
    """Replace FOLDER/image and FOLDER/muster.cdx.json; return the image's digest."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "image", ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="muster-image-") as scratch:
        roots = [Path(scratch) / name for name in ("python", "packages", "product")]
        packages = root.packages_root(roots[1])
        libraries = root.python_root(roots[0], packages)
        root.product_root(roots[2])
        bill = json.dumps(sbom.bill_of(__version__, packages, libraries), indent=2) + "\n"
        for path in (folder / "muster.cdx.json", roots[2] / BILL):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(bill, encoding="utf-8")
        layout = oci.Layout(folder / "image")
        for one in roots:
            layout.add_layer(one, _owner)
    return layout.finish(_config(packages.relative_to(roots[1])), _platform(), __version__)


def _owner(name: str) -> tuple[int, int]:
    if name == root.RUN.as_posix():
        return root.USER, 0
    return 0, STICKY if name == "tmp" else 0


def _config(packages: Path) -> dict[str, object]:
    authorities = f"/{packages}/certifi/cacert.pem"
    return {
        "User": f"{root.USER}:{root.USER}",
        "Entrypoint": ["/usr/bin/muster"],
        "Env": ["PATH=/usr/bin", f"SSL_CERT_FILE={authorities}"],
        "WorkingDir": f"/{root.RUN}",
        "Labels": {
            "org.opencontainers.image.title": "muster",
            "org.opencontainers.image.version": __version__,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    }


def _platform() -> dict[str, str]:
    machine = platform.machine()
    return {"architecture": ARCHITECTURES.get(machine, machine), "os": "linux"}


def main() -> int:
    """Build into the folder of the command line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image.build", description=__doc__)
    parser.add_argument("folder", type=Path)
    print(build(parser.parse_args().folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
