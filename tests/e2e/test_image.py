"""The image that `python -m deploy.image.build` makes, unpacked: it runs alone, as its user, on a
read-only root, and two builds are equal.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from muster import __version__
from tests.support.required_tools import require_tool
from tests.tidy.test_lock_files import pins

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
USER = 65532
RUN = """
mount --bind "$0" "$0"
mount -t tmpfs -o uid=$1,gid=$1,mode=0700 tmpfs "$0/var/lib/muster"
mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"
mount -o remount,ro,bind "$0"
root="$0" user="$1"
shift
if [ "$user" = 0 ]; then exec chroot "$root" "$@"; fi
exec chroot --userspec="$user:$user" "$root" "$@"
"""


def build(folder: Path) -> str:
    command = [sys.executable, "-m", "deploy.image.build", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def blob(folder: Path, descriptor: dict[str, Any]) -> Path:
    """Return the file that a descriptor names; its content is what the descriptor says."""
    digest = str(descriptor["digest"]).removeprefix("sha256:")
    path = folder / "image" / "blobs" / "sha256" / digest
    content = path.read_bytes()
    assert len(content) == descriptor["size"]
    assert hashlib.sha256(content).hexdigest() == digest
    return path


def loaded(folder: Path, descriptor: dict[str, Any]) -> dict[str, Any]:
    found = json.loads(blob(folder, descriptor).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    require_tool("ldd", "apt-get install libc-bin")
    folder = tmp_path_factory.mktemp("image")
    return folder, build(folder)


@pytest.fixture(scope="module")
def manifest(built: tuple[Path, str]) -> dict[str, Any]:
    folder, digest = built
    (entry,) = json.loads((folder / "image" / "index.json").read_text())["manifests"]
    assert entry["digest"] == digest
    return loaded(folder, entry)


@pytest.fixture(scope="module")
def unpacked(built: tuple[Path, str], manifest: dict[str, Any]) -> Path:
    """Return the root file system, with the example beside the image's own files."""
    root = built[0] / "root"
    for layer in manifest["layers"]:
        with tarfile.open(blob(built[0], layer)) as archive:
            archive.extractall(root, filter="tar")
    shutil.copytree(ROOT / "examples" / "manifests", root / "examples")
    return root


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the image with its root read-only and an empty environment."""
    is_root = os.getuid() == 0
    unshare = ["unshare", "--mount", *([] if is_root else ["--map-root-user"])]
    allowed = shutil.which("unshare") and subprocess.run([*unshare, "true"], check=False)
    is_found = bool(allowed and allowed.returncode == 0)
    require_tool("unshare", "apt-get install util-linux, and allow namespaces", found=is_found)
    # Without the rights of root only one user can be mapped, who is root inside.
    command = [*unshare, "sh", "-euc", RUN, str(root), str(USER if is_root else 0), *words]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_two_builds_are_equal(built: tuple[Path, str], tmp_path: Path):
    assert build(tmp_path) == built[1]


def test_the_image_starts_as_a_user_without_rights(
    built: tuple[Path, str], manifest: dict[str, Any]
):
    config = loaded(built[0], manifest["config"])["config"]
    assert config["User"] == f"{USER}:{USER}"
    assert config["Entrypoint"] == ["/usr/bin/muster"]


def test_only_the_folder_of_runs_is_the_user_s(built: tuple[Path, str], manifest: dict[str, Any]):
    for layer in manifest["layers"]:
        with tarfile.open(blob(built[0], layer)) as archive:
            for one in archive:
                is_user_s = one.name == "var/lib/muster"
                assert one.uid == one.gid == (USER if is_user_s else 0), one.name
                assert one.mode in ((0o1777,) if one.name == "tmp" else (0o755, 0o644)), one.name
                assert one.mtime == 0


def test_it_runs_from_its_own_files_alone(unpacked: Path):
    assert not list(unpacked.rglob("sh"))
    done = run(unpacked, "/usr/bin/muster", "--version")
    assert (done.returncode, done.stdout) == (0, f"muster {__version__}\n"), done.stderr


def test_it_schedules_the_example(unpacked: Path):
    words = ["run", "/examples", "--run-dir", "/var/lib/muster/run"]
    done = run(unpacked, "/usr/bin/muster", *words)
    assert "1,026 of 1,041 pods bound" in done.stdout, done.stderr


def test_every_library_that_the_product_loads_is_there(unpacked: Path):
    code = "import aiokafka, kubernetes_asyncio, sqlite3, ssl, uvloop; open('/x', 'w')"
    done = run(unpacked, "/opt/python/bin/python3", "-I", "-c", code)
    assert done.stderr.endswith("OSError: [Errno 30] Read-only file system: '/x'\n")


def test_the_bill_names_what_the_lock_file_pins(built: tuple[Path, str], unpacked: Path):
    bill = json.loads((built[0] / "muster.cdx.json").read_text(encoding="utf-8"))
    assert json.loads((unpacked / "usr/share/sbom/muster.cdx.json").read_text()) == bill
    found = {one["purl"] for one in bill["components"] if "purl" in one}
    locked = pins((ROOT / "requirements" / "run.txt").read_text(encoding="utf-8"))
    needed = {f"pkg:pypi/{pin.replace('==', '@')}" for pin, marker in locked if not marker}
    assert needed <= found
    assert found <= {f"pkg:pypi/{pin.replace('==', '@')}" for pin, _marker in locked}
    others = [one["name"] for one in bill["components"] if "purl" not in one]
    assert others[0] == "CPython"
    assert any(name.startswith("libc.so") for name in others)


def test_the_other_way_to_build_it_copies_what_there_is():
    text = (ROOT / "deploy" / "image" / "Dockerfile").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("COPY "):
            assert (ROOT / line.split()[1]).exists(), line
