"""Turns the command line's words into a world: `openb:DIR`, `dlrm:DIR`, `flood:...`, or paths.

The folder is followed (or replaced) by settings as `key=value`, separated by commas. Nothing is
guessed: an unknown key or a bad value is a WorldError that names it.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from shared.kubernetes.objects import quantities
from shared.kubernetes.objects.errors import WorldError, shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.pod_templates import duration_ms
from shared.model.release import DEFAULT_RELEASE, Release
from shared.model.text import did_you_mean
from shared.model.world import World
from shared.worlds.flood import Flood, flood_world
from shared.worlds.manifests import manifests_world
from shared.worlds.traces.dlrm import FILE as DLRM_FILE
from shared.worlds.traces.dlrm import dlrm_world
from shared.worlds.traces.openb import NODE_FILE, PLAIN_POD_FILE, Timing, plain_world
from shared.worlds.traces.openb_main import POD_FILE, MainJob, main_world
from shared.worlds.traces.published import is_published, require_files

COUNT_MAX = 10_000_000
SCHEMES = ("openb", "dlrm", "flood")
INSTEAD = {
    "openb": "name another folder: openb:DIR. openb:examples/trace is a small made-up one",
    "dlrm": "name another folder: dlrm:DIR",
    "flood": "set MUSTER_DATA to the folder above",
}
"""What to do in place of fetching the trace, by the word on the command line."""
SHAPES = ("identical", "openb", "distinct")


@dataclass(frozen=True)
class Choice:
    """Options of the command line that belong to a world; None = not given."""

    plain: bool = False
    speed: str | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Chosen:
    """A world, and whether it is the main job, which must reach expected counts, or a flood."""

    world: World
    is_main_job: bool = False
    is_flood: bool = False


def data_root() -> Path:
    """Return the folder of traces: MUSTER_DATA, or ../shared/data beside the repository."""
    named = os.environ.get("MUSTER_DATA")
    repository = Path(__file__).resolve().parents[2]
    return Path(named) if named else repository.parent / "shared" / "data"


class _Words:
    """The key=value words of one world."""

    def __init__(self, word: str, body: str, takes_folder: bool) -> None:
        parts = [part for part in body.split(",") if part]
        self.word, self.folder = word, ""
        if takes_folder and parts and "=" not in parts[0]:
            self.folder = parts.pop(0)
        self._values: dict[str, str] = {}
        self._known: set[str] = set()
        for part in parts:
            key, equals, value = part.partition("=")
            if not equals or not value:
                raise WorldError(word, key, "must be key=value")
            if key in self._values:
                raise WorldError(word, key, "is given twice")
            self._values[key] = value

    def set_default(self, key: str, value: str | None) -> None:
        """Set a key from a command line option, unless the world's own words have it."""
        if value is not None:
            self._values.setdefault(key, value)

    def error(self, key: str, rule: str) -> WorldError:
        return WorldError(self.word, key, rule)

    def take(self, key: str) -> str | None:
        self._known.add(key)
        return self._values.pop(key, None)

    def count(self, key: str, default: int, low: int = 0, high: int = COUNT_MAX) -> int:
        text = self.take(key)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or not low <= int(text[:20]) <= high:
            raise self.error(key, f"{shown(text)} is not a whole number within {low}..{high}")
        return int(text)

    def quantity(self, key: str, default: int, read: Callable[[object], int]) -> int:
        text = self.take(key)
        try:
            return default if text is None else read(text)
        except ValueError as error:
            raise self.error(key, str(error)) from error

    def positive(self, key: str) -> Fraction | None:
        text = self.take(key)
        if text is None:
            return None
        try:
            value = quantities.parse(text)
        except ValueError as error:
            raise self.error(key, str(error)) from error
        if not value:
            raise self.error(key, "must be more than 0")
        return value

    def duration_ms(self, key: str, default_ms: int) -> int:
        text = self.take(key)
        return (
            default_ms
            if text is None
            else duration_ms(Fields(self.word, "", {key: text}), key, default_ms)
        )

    def done(self) -> None:
        """Raise WorldError for unused words."""
        for key in self._values:
            raise self.error(key, f"is an unknown setting{did_you_mean(key, self._known)}")


def load_world(words: Sequence[str], choice: Choice, release: Release = DEFAULT_RELEASE) -> Chosen:
    """Return the world that the command line names, its manifests as a release reads them. Raises
    WorldError.
    """
    if not all(words) or not words:
        raise WorldError("world", "", "name one: a folder of manifests, openb:, dlrm: or flood:")
    scheme, colon, body = words[0].partition(":")
    if colon and scheme in SCHEMES:
        if len(words) > 1:
            raise WorldError(words[1], "", f"cannot be joined with {words[0]}")
        return _LOADERS[scheme](words[0], body, choice)
    if colon and not Path(words[0]).exists():
        meant = did_you_mean(f"{scheme}:", [f"{one}:" for one in SCHEMES])
        raise WorldError(words[0], "", f"does not exist{meant}")
    if choice.speed is not None or choice.plain:
        option = "--plain" if choice.plain else "--speed"
        raise WorldError(words[0], option, "is for traces only")
    return Chosen(manifests_world([Path(word) for word in words], release))


def _trace(words: _Words, name: str, *files: str) -> Path:
    """Return the folder of a trace. Raises WorldError, which says where to get the trace."""
    folder = Path(words.folder) if words.folder else data_root() / name
    require_files(folder, files, INSTEAD[words.word.partition(":")[0]])
    return folder


def _timing(words: _Words, choice: Choice) -> Timing:
    words.set_default("speed", choice.speed)
    rate = words.positive("rate")
    speed = words.positive("speed")
    if rate is not None and speed is None:
        speed = Fraction(1)
    return Timing(speed, rate, words.count("repeat", 1, 1, 1000))


def _seed(words: _Words, choice: Choice, default: int = 1) -> int:
    words.set_default("seed", None if choice.seed is None else str(choice.seed))
    return words.count("seed", default)


def _openb(word: str, body: str, choice: Choice) -> Chosen:
    words = _Words(word, body, takes_folder=True)
    timing = _timing(words, choice)
    seed = _seed(words, choice)
    if choice.plain:
        pod_file = words.take("pods") or PLAIN_POD_FILE
        words.done()
        folder = _trace(words, "openb", NODE_FILE, pod_file)
        return Chosen(plain_world(folder, pod_file, timing))
    job = MainJob(seed=seed)
    job = replace(
        job,
        latecomers=words.count("latecomers", job.latecomers, 0, 100_000),
        late_gangs=words.count("late-gangs", job.late_gangs, 0, 100_000),
        gang_timeout_ms=words.duration_ms("gang-timeout", job.gang_timeout_ms),
        latecomers_at_ms=words.duration_ms("latecomers-at", job.latecomers_at_ms),
        late_gangs_at_ms=words.duration_ms("late-gangs-at", job.late_gangs_at_ms),
    )
    pod_file = words.take("pods") or POD_FILE
    words.done()
    folder = _trace(words, "openb", NODE_FILE, pod_file)
    world = main_world(folder, pod_file, timing, job)
    is_whole = timing.speed is None and is_published(folder / pod_file)
    return Chosen(world, is_main_job=is_whole)


def _dlrm(word: str, body: str, choice: Choice) -> Chosen:
    words = _Words(word, body, takes_folder=True)
    words.set_default("speed", choice.speed)
    speed = words.positive("speed")
    words.done()
    return Chosen(dlrm_world(_trace(words, "dlrm2025", DLRM_FILE), speed))


def _flood(word: str, body: str, choice: Choice) -> Chosen:
    words = _Words(word, body, takes_folder=False)
    if choice.speed is not None or choice.plain:
        raise WorldError(word, "--plain" if choice.plain else "--speed", "is for traces only")
    plain = Flood()
    seed = _seed(words, choice, plain.seed)
    shapes = words.take("shapes") or plain.shapes
    if shapes not in SHAPES:
        raise words.error("shapes", f"{shown(shapes)} is not one of {', '.join(SHAPES)}")
    values: dict[str, Any] = {
        "pods": words.count("pods", plain.pods),
        "shapes": shapes,
        "nodes": words.count("nodes", plain.nodes),
        "rate": words.count("rate", plain.rate),
        "start_ms": words.duration_ms("start", plain.start_ms),
        "seed": seed,
        "window": words.count("window", plain.window, 1),
        "node_cpu_milli": words.quantity("node-cpu", plain.node_cpu_milli, quantities.milli),
        "node_memory_bytes": words.quantity(
            "node-memory", plain.node_memory_bytes, quantities.units
        ),
        "node_pods": words.count("node-pods", plain.node_pods),
        "gpu_nodes": words.count("gpu-nodes", plain.gpu_nodes),
        "cpu_milli": words.quantity("cpu", plain.cpu_milli, quantities.milli),
        "memory_bytes": words.quantity("memory", plain.memory_bytes, quantities.units),
    }
    words.done()
    assert set(values) == {field.name for field in fields(Flood)}
    openb_pods = None
    if shapes == "openb":
        openb_pods = _trace(words, "openb", PLAIN_POD_FILE) / PLAIN_POD_FILE
    return Chosen(flood_world(Flood(**values), openb_pods), is_flood=True)


_LOADERS: dict[str, Callable[[str, str, Choice], Chosen]] = {
    "openb": _openb,
    "dlrm": _dlrm,
    "flood": _flood,
}
