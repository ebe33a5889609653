"""`--plugin FILE.py`: reads, checks and registers users' plugins.

A file whose decisions could not be replayed is refused (muster/user_plugins/rules.py). The check
catches mistakes; it is no sandbox, and a loaded file has the rights of this process. A file whose
classes extend BindPlugin decides nothing and may use any module.
"""

import ast
import grp
import hashlib
import importlib.util
import inspect
import logging
import os
import pwd
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from muster.app.mesh import make_core
from muster.cli.errors import UsageFault
from muster.user_plugins.names import CALLED, uncalled_method, unread_parts
from muster.user_plugins.rules import complaint, refused
from shared.configuration.plugins import OTHERS, REMOVED
from shared.machine.core import Core
from shared.model.cluster_event_kinds import KINDS
from shared.model.ids import JournalName
from shared.model.profile import PLUGINS as KNOWN
from shared.model.text import did_you_mean
from shared.ports.bind_plugin import BindPlugin
from shared.scheduling.api.custom.args import type_of
from shared.scheduling.api.custom.plugin import (
    BIND,
    HIGHER,
    KEYED_PARTS,
    LOWER,
    METHODS,
    PARTS,
    PERMIT,
    PLUGINS,
    POST_BIND,
    PRE_BIND,
    READABLE,
    Plugin,
    Registered,
)

log = logging.getLogger("muster.plugins")

AT_BIND = (PERMIT, PRE_BIND, BIND, POST_BIND)


def load(files: Iterable[Path] | None) -> None:
    """Register the plugins of these files and no others. Raises UsageFault."""
    PLUGINS.clear()
    for path in files or ():
        for kind, sha256 in _read(path):
            if kind.name in PLUGINS:
                raise UsageFault(f"--plugin {path}: a plugin {kind.name} is loaded already")
            PLUGINS[kind.name] = Registered(kind, sha256)


def core_maker(files: Sequence[Path], placements: int) -> Any:
    """Return `make_core` for other processes: it loads the plugins first."""
    return partial(_core, files=tuple(files), placements=placements)


def _core(journal: JournalName, files: tuple[Path, ...], placements: int) -> Core[Any]:
    if files and not PLUGINS:
        load(files)
    return make_core(journal, placements)


def _read(path: Path) -> Iterator[tuple[type[Plugin], str]]:
    try:
        with path.open("rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            source = file.read()
        tree = ast.parse(source, str(path))
    except OSError as error:
        raise UsageFault(f"--plugin {path}: cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", 0)
        raise UsageFault(f"--plugin {path}, line {line}: is not Python: {error}") from error
    acts = _acts(tree)
    for line, what in () if acts else refused(tree):
        raise UsageFault(f"--plugin {path}, line {line}: {complaint(what)}")
    module = _run(path, source)
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Plugin)
        and kind.__module__ == module.__name__
    ]
    if not kinds:
        raise UsageFault(f"--plugin {path}: has no class that extends Plugin")
    for kind in kinds:
        if issubclass(kind, BindPlugin) is not acts:
            raise UsageFault(
                f"--plugin {path}: {kind.__name__}: a file has either Plugin or BindPlugin "
                "classes: move the others to a file of their own"
            )
    digest = hashlib.sha256(source).hexdigest()
    for kind in kinds:
        _check(path, kind)
        for line, part in unread_parts(tree, kind):
            raise UsageFault(
                f'--plugin {path}, line {line}: pod["{part}"] is not in `reads` of {kind.name}'
                f"{did_you_mean(part, kind.reads)}"
            )
        yield kind, digest


def _acts(tree: ast.Module) -> bool:
    """Return whether the file has bind plugins, which decide nothing."""
    bases = {
        base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for base in kind.bases
    }
    return "BindPlugin" in bases and "Plugin" not in bases


def _check_owner(path: Path, found: os.stat_result) -> None:
    """Refuse a file that other users may write. The folder is not checked: in a pod the roots of
    volumes are open to all, and no other user is there. Raises UsageFault.
    """
    mode = stat.S_IMODE(found.st_mode)
    for bit, bits, is_open in (
        (stat.S_IWOTH, "o-w", True),
        (stat.S_IWGRP, "g-w", _has_others(found)),
    ):
        if mode & bit and is_open:
            raise UsageFault(
                f"--plugin {path}: others may write it (mode {mode:04o}), and it runs as this "
                f"process: chmod {bits} {path}"
            )
    if found.st_uid not in (0, os.geteuid()):
        log.warning("--plugin %s: belongs to user %d, who may change it", path, found.st_uid)
    folder = path.resolve().parent
    folder_mode = folder.stat().st_mode
    if folder_mode & stat.S_IWOTH and not folder_mode & stat.S_ISVTX:
        log.warning("--plugin %s: all users may replace files in %s", path, folder)


def _has_others(found: os.stat_result) -> bool:
    """Return whether other users may be in the file's group. A user's own group has the user's
    name; a group without a name, as on volumes in pods, has no members.
    """
    try:
        return grp.getgrgid(found.st_gid).gr_name != pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        return False


def _run(path: Path, source: bytes) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"muster_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageFault(f"--plugin {path}: must be a .py file")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        # Compile the checked text, not the file as it is now or a cached file beside it.
        exec(compile(source, spec.origin or str(path), "exec"), module.__dict__)
    except Exception as error:
        raise UsageFault(f"--plugin {path}: {type(error).__name__}: {error}") from error
    return module


def _check(path: Path, kind: type[Plugin]) -> None:
    """Check that the plugin can work. Raises UsageFault."""
    name = kind.__dict__.get("name") or kind.__name__
    kind.name = name
    where = f"--plugin {path}: {name}"
    if name in KNOWN or name in OTHERS or name in REMOVED:
        raise UsageFault(f"{where}: is the name of a plugin of kube-scheduler")
    if method := uncalled_method(kind):
        raise UsageFault(
            f"{where}: nothing calls {method}()"
            f"{did_you_mean(method, CALLED) or '; the name of a helper method begins with _'}"
            " (docs/reference/plugins.md)"
        )
    points = kind.points()
    if not points:
        known = ", ".join(method for methods in METHODS.values() for method in methods)
        raise UsageFault(f"{where}: has none of the methods {known}")
    if issubclass(kind, BindPlugin):
        _check_acting(kind, where)
    elif hasattr(kind, "wakes"):
        raise UsageFault(
            f"{where}: `wakes` is only valid with permit(); a pod that a filter refuses is "
            "tried again when the node or its pods change"
        )
    elif at_bind := set(points).intersection(AT_BIND):
        raise UsageFault(f"{where}: extends {min(at_bind)}: the class must extend BindPlugin")
    for methods in METHODS.values():
        if sum(map(kind.has, methods)) > 1:
            raise UsageFault(f"{where}: has {' and '.join(methods)}; one of them is enough")
    if kind.has("reserve") is not kind.has("room"):
        raise UsageFault(f"{where}: reserve() and room() must be defined together")
    for read in kind.reads:
        if not _can_be_read(read):
            raise UsageFault(f"{where}: reads {read!r}: must be {READABLE}")
    if kind.normalize not in ("", HIGHER, LOWER):
        raise UsageFault(f"{where}: normalize must be HIGHER or LOWER")
    if kind.amounts and (kind.has("score_node") or kind.normalize):
        raise UsageFault(f"{where}: `amounts` needs a `score` method and no `normalize`")
    try:
        type_of(kind)
    except Exception as error:  # evaluating annotations runs any code
        raise UsageFault(f"{where}: args: {error}") from error


def _check_acting(kind: type[BindPlugin], where: str) -> None:
    """Check that the bind plugin decides nothing and has async methods. Raises UsageFault."""
    for method in kind.pure():
        raise UsageFault(
            f"{where}: has {method}: a deciding method belongs in a class that extends Plugin, "
            "in another file"
        )
    for method in filter(kind.has, ("permit", "pre_bind", "bind", "post_bind")):
        if not inspect.iscoroutinefunction(getattr(kind, method)):
            raise UsageFault(f"{where}: {method} must be `async def`")
    _check_wakes(kind, where)
    if not isinstance(kind.timeout_s, int | float) or not kind.timeout_s > 0:
        raise UsageFault(f"{where}: timeout_s must be a number of seconds above 0")


def _check_wakes(kind: type[BindPlugin], where: str) -> None:
    """Check that the events in `wakes` exist. Raises UsageFault."""
    if kind.wakes is None:
        return
    if not kind.has("permit"):
        raise UsageFault(
            f"{where}: `wakes` is only valid with permit(): only its rejections wait for events"
        )
    if not isinstance(kind.wakes, tuple):
        raise UsageFault(f"{where}: wakes must be a tuple")
    for one in kind.wakes:
        if one not in KINDS:
            raise UsageFault(f"{where}: wakes {one!r}: must be one of {', '.join(KINDS)}")


def _can_be_read(read: object) -> bool:
    if not isinstance(read, str):
        return False
    group, dot, key = read.partition(".")
    return bool(key) and group + dot in KEYED_PARTS if dot else read in PARTS
