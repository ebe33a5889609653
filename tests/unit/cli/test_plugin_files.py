"""Plugin files: permitted writers, and that the checked code is the code that runs."""

import grp
import importlib.util
import os
import pwd
import py_compile
from pathlib import Path

import pytest

from muster.cli.errors import UsageFault
from muster.user_plugins.load import load
from shared.scheduling.api.custom.plugin import PLUGINS
from tests.unit.cli.test_plugins import FILTER, HEAD


def own(path: Path, mode: int) -> Path:
    path.write_text(HEAD + FILTER + "return True\n")
    path.chmod(mode)
    return path


def test_a_file_that_others_may_write_is_refused(tmp_path):
    path = own(tmp_path / "one.py", 0o646)
    rule = rf"--plugin {path}: others may write it \(mode 0646\), .*: chmod o-w {path}"
    with pytest.raises(UsageFault, match=rule):
        load([path])
    path.chmod(0o644)
    load([path])


def test_a_file_that_a_shared_group_may_write_is_refused(tmp_path, monkeypatch):
    path = own(tmp_path / "one.py", 0o664)
    groups = {"staff": True, pwd.getpwuid(os.geteuid()).pw_name: False, "": False}
    for name, is_refused in groups.items():

        def named(_gid: int, name: str = name) -> grp.struct_group:
            if not name:
                raise KeyError
            return grp.struct_group((name, "x", 1, []))

        monkeypatch.setattr(grp, "getgrgid", named)
        if is_refused:
            with pytest.raises(UsageFault, match=rf"mode 0664.*: chmod g-w {path}"):
                load([path])
        else:
            load([path])


def test_a_file_that_another_user_could_change_is_reported(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    load([own(folder / "one.py", 0o644)])
    folder.chmod(0o1777)
    monkeypatch.setattr(os, "geteuid", lambda: 4_321)
    os.chown(folder / "one.py", 1_234, -1) if os.getuid() == 0 else None
    load([folder / "one.py"])
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == f"--plugin {folder / 'one.py'}: all users may replace files in {folder}"
    owner = (folder / "one.py").stat().st_uid
    assert said[1:] == [f"--plugin {folder / 'one.py'}: belongs to user {owner}, who may change it"]


def test_a_config_map_volume_is_accepted_silently(tmp_path, caplog):
    """Links into a folder of the kubelet's, below a root that is open to all."""
    inner = tmp_path / "volume" / "..2026_01_02_03_04_05.678"
    inner.mkdir(parents=True)
    inner.parent.chmod(0o777)
    own(inner / "one.py", 0o644)
    (inner.parent / "..data").symlink_to(inner.name)
    (inner.parent / "one.py").symlink_to("..data/one.py")
    load([inner.parent / "one.py"])
    assert caplog.records == []


def test_the_checked_text_is_the_one_that_runs(tmp_path):
    """A compiled file beside the source is not used."""
    path = own(tmp_path / "one.py", 0o644)
    evil = own(tmp_path / "evil.py", 0o644)
    evil.write_text("raise SystemExit('planted')\n" + " " * (path.stat().st_size - 29))
    os.utime(evil, ns=(path.stat().st_mtime_ns,) * 2)
    cached = Path(importlib.util.cache_from_source(str(path)))
    py_compile.compile(str(evil), cfile=str(cached), dfile=str(path))
    data = bytearray(cached.read_bytes())
    data[12:16] = path.stat().st_size.to_bytes(4, "little")
    cached.write_bytes(data)
    load([path])
    assert list(PLUGINS) == ["One"]
