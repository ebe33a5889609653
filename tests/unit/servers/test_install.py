"""The scripts of `make servers`: their messages when they cannot build, and when they need not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from shared.model.release import VERSIONS

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "servers"
TOOLS = (
    "bash",
    "grep",
    "dirname",
    "basename",
    "sed",
    "cat",
    "cmp",
    "sort",
    "head",
    "mkdir",
    "mktemp",
)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Return a folder for PATH with only plain tools; a test may add a go."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None, name
        (folder / name).symlink_to(found)
    return folder


def install(tools: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": str(tools), "MUSTER_SERVERS": str(tools.parent / "servers")}
    command = [str(tools / "bash"), str(FOLDER / "install.sh"), *parts]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def add_go(tools: Path, version: str) -> None:
    """Add a go that knows its version and can build nothing."""
    go = tools / "go"
    go.write_text(f'#!{tools}/bash\n[ "$1" = env ] && echo {version}\n', encoding="ascii")
    go.chmod(0o755)


PARTS = ["etcd", *(f"kubernetes-{one}" for one in VERSIONS), "kwok"]
PARTS += ["kueue", "helm", "prometheus"]
PARTS += [f"{part}-{one}" for part in ("parity", "parity-cover", "claims") for one in VERSIONS]


@pytest.mark.parametrize("part", PARTS)
def test_without_go_one_line_says_what_is_missing(tools: Path, part: str):
    done = install(tools, part)
    assert done.returncode == 1
    first, last = done.stderr.splitlines()
    assert first.startswith("missing: go (1.2")
    assert first.endswith(f"to build {part}")
    assert last == f"not installed: {part}"


def test_an_old_go_is_named_with_the_version_that_is_needed(tools: Path):
    add_go(tools, "go1.9.7")
    done = install(tools, "kubernetes-1.37")
    assert done.returncode == 1
    assert "go is version 1.9.7, 1.26.0 or newer is needed to build kubernetes-1.37" in done.stderr


def test_every_part_is_tried_and_failed_parts_are_named(tools: Path):
    done = install(tools)
    assert done.returncode == 1
    assert "missing: java" in done.stderr
    assert done.stderr.splitlines()[-1] == " ".join(["not installed: kafka", *PARTS])


def test_an_unknown_part_is_refused(tools: Path):
    done = install(tools, "zookeeper")
    assert done.returncode == 2
    assert "there is no 'zookeeper'" in done.stderr


def test_a_failed_build_leaves_nothing_behind(tools: Path):
    for name in ("nice", "rm"):
        (tools / name).symlink_to(str(shutil.which(name)))
    add_go(tools, "go1.99.0")
    done = install(tools, "etcd")
    assert done.returncode == 1
    assert "etcd: etcd did not build" in done.stderr
    assert os.listdir(tools.parent / "servers") == []


def test_an_up_to_date_build_is_left_alone(tools: Path):
    built = tools.parent / "servers" / "etcd"
    built.mkdir(parents=True)
    stamp = "".join((FOLDER / "etcd" / name).read_text() for name in ("go.mod", "go.sum"))
    (built / "installed").write_text(f"flags -s -w\n{stamp}", encoding="utf-8")
    done = install(tools, "etcd")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("etcd is installed in")
    # Another version is built again, for which there is no go here.
    (built / "installed").write_text(f"flags -s -w\n{stamp}\n", encoding="utf-8")
    assert install(tools, "etcd").returncode == 1
