"""Coverage of kube-scheduler's plugins by a run of cases, statement by statement.

    GOCOVERDIR=DIR python -m tests.parity
    python -m tests.parity.comparison.go_coverage DIR/1.37 --at-least 80

It reads the files that the program of `deploy/servers/install.sh parity-cover-1.37` left there,
with Go's own tools. Only code that decides about pods counts: no queueing hints, signatures,
clones or set-up (docs/explanation/parity.md lists them). The total with that code is printed as
well.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

import click
from rich.console import Console
from rich.table import Table

_MODULE = Path(__file__).parents[1] / "oracle"
_KUBERNETES = "k8s.io/kubernetes"
_ROOT = f"{_KUBERNETES}/pkg/scheduler/framework/"
# The plugins that run for no pod here (gates, queue order, binding), are switched off by default,
# or come later (DynamicResources); and what Kubernetes' own tests use.
_OTHER_PLUGINS = re.compile(
    r"^muster/|plugins/(defaultbinder|deferredpodscheduling|dynamicresources|feature|gangscheduling"
    r"|nodedeclaredfeatures|podgrouppodscount|queuesort|registry|schedulinggates|topologyaware)"
    r"|metrics/|/(fake|test)_"
)
# Scores by capacity (a gate that is off until 1.37), a cache of what is being bound, and groups of
# pods.
_OTHER_FILES = re.compile(
    r"volumebinding/(scorer|passive_assume_cache)\.go$|preemption/(podgrouppreemption|types)\.go$"
    r"|helper/podgroup\.go$"
)
# The same scores by capacity.
_OTHER_PLACES = {
    ("plugins/volumebinding/volume_binding.go", name)
    for name in ("PreScore", "Score", "ScoreExtensions")
} | {("plugins/nodevolumelimits/csi_manager.go", "List")}
# Who preempts, in logs and events, and evictions within the cycle.
_OTHER_PLACES |= {
    ("preemption/executor.go", name)
    for name in (
        *("GetName", "GetNamespace", "Obj", "Pods", "Priority", "SchedulerName", "Type", "UID"),
        "prepareCandidate",
    )
}
_OTHER_FUNCTIONS = re.compile(
    r"^(Clone|clone|EventsToRegister|Name|New\w*|Reserve|SignPod|Unreserve)$"
    r"|^is\w*SchedulableAfter|PreBind|^PreEnqueue$|Assume|^BindPodVolumes$|^bindAPIUpdate$"
    r"|^checkBindings$|DRA|^deviceMatchesClass$|^build\w+CacheKey$|^nodeMatches$|^isFit$|^Fits$"
    r"|^haveAnyRequestedResourcesIncreased$|^hasRestartableInitContainer$"
    # Asked by PreEnqueue alone (and by the oracle, which waits); behind a gate that is off.
    r"|^IsPodRunningPreemption$|^checkCSIDriverOnNode$"
    # For groups of pods, for resizes that wait, and for a fast path: gates that are off.
    r"|PodGroup|Placement|CrossNodes|^TraverseHierarchyUp$|^GetPodPriority$|HostScoped"
    r"|^haveEnoughRelevantResourcesDecreased$|^adjustDeltas|^classifyTermsBasedOnScope$"
    r"|^node(Topology|Pods)\w+$|^podMatchesAnyAffinityTerms$"
    # Asked by Reserve alone, and by nobody.
    r"|^arePodVolumesBound$"
    # Asked by queueing hints alone.
    r"|^involvedInTopologySpreading$|^podLabelsMatchSpreadConstraints$|^isPVCRequestedFromPod$"
    r"|^hasConstraintWithNodeTaintsPolicyHonor$|^checkTopologyKeyLabelsChanged$"
    # For logs, and for the same scores by capacity.
    r"|^(getPodName|Len|Less|Swap|StorageClassName|StorageResource)$"
    r"|^convertDynamicProvisionsToPVCs$"
)
_BLOCK = re.compile(r"^(\S+):(\d+)\.\d+,(\d+)\.\d+ (\d+) (\d+)$")
_FUNCTION = re.compile(r"^(\S+):(\d+):\s+(\S+)\s+[\d.]+%$")


# The content of such a block: only a fault of the API server, the caller or the set-up leads there.
_ERROR = re.compile(
    r"AsStatus\(|Errorf\(|errors\.New|HandleError|statusError|return .*\berr$|err\)$"
)
Source: TypeAlias = Callable[[str], Sequence[str]]


@dataclass(slots=True)
class Reached:
    """The statements of one function."""

    file: str
    name: str
    statements: int = 0
    reached: int = 0
    # The first lines of blocks that were not reached.
    missed_lines: list[int] = field(default_factory=list)


def functions(
    blocks: Iterable[str], starts: Iterable[str], source: Source = lambda _file: ()
) -> list[Reached]:
    """All of the plugins that run here, from a profile (`go tool covdata textfmt`) and `go tool
    cover -func`. With the lines of the files, without blocks that only pass an error on.
    """
    begins: dict[str, list[tuple[int, Reached]]] = defaultdict(list)
    for found in filter(None, map(_FUNCTION.match, starts)):
        file, line, name = found.groups()
        begins[file].append((int(line), Reached(file.removeprefix(_ROOT), name)))
    for found in filter(None, map(_BLOCK.match, blocks)):
        file, (line, last, statements, count) = found[1], map(int, found.groups()[1:])
        within = [one for first, one in begins[file] if first <= line]
        # The line on which a block begins is the condition before it.
        if not within or _ERROR.search("\n".join(source(file)[line:last])):
            continue
        within[-1].statements += statements
        if count:
            within[-1].reached += statements
        else:
            within[-1].missed_lines.append(line)
    everything = [one for ones in begins.values() for _, one in ones]
    return [one for one in everything if one.statements and not _OTHER_PLUGINS.search(one.file)]


def decides(one: Reached) -> bool:
    """Return whether a function takes part in decisions about pods, with the default
    feature gates.
    """
    if (one.file, one.name) in _OTHER_PLACES:
        return False
    return not (_OTHER_FILES.search(one.file) or _OTHER_FUNCTIONS.search(one.name))


def read(folder: Path, errors: bool = True) -> list[Reached]:
    """What the runs that wrote into the folder have reached, together, of all functions (see
    `decides`); `errors`: blocks that only pass an error on count as well. The folder is named like
    the release.
    """
    version = folder.name
    with tempfile.NamedTemporaryFile(suffix=".txt") as profile:
        _go(version, "tool", "covdata", "textfmt", f"-i={folder.resolve()}", f"-o={profile.name}")
        starts = _go(version, "tool", "cover", f"-func={profile.name}")
        blocks = Path(profile.name).read_text(encoding="utf-8")
    source = (lambda _file: ()) if errors else _source(version)
    return functions(blocks.splitlines(), starts.splitlines(), source)


def _source(version: str) -> Source:
    """Return the lines of a file of kube-scheduler in Go's module cache."""
    root = Path(_go(version, "list", "-m", "-f", "{{.Dir}}", _KUBERNETES).strip())

    @cache
    def lines(file: str) -> Sequence[str]:
        path = root / file.removeprefix(f"{_KUBERNETES}/")
        return path.read_text(encoding="utf-8").splitlines() if path.is_file() else ()

    return lines


def _go(version: str, *arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments],
        cwd=_MODULE,
        env={**os.environ, "GOFLAGS": f"-modfile={version}.mod"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def percent(ones: Iterable[Reached]) -> float:
    """Return the share of reached statements, percent; 0 without statements."""
    ones = list(ones)
    return 100 * sum(one.reached for one in ones) / max(1, sum(one.statements for one in ones))


def _table(ones: list[Reached]) -> Table:
    files: dict[str, list[Reached]] = defaultdict(list)
    for one in ones:
        files[one.file].append(one)
    table = Table("file", "reached", "of", "%", "not reached (function: lines)")
    for file, within in sorted(files.items()):
        missed = [
            f"{one.name}: {' '.join(map(str, one.missed_lines)) if one.reached else 'all'}"
            for one in within
            if one.missed_lines
        ]
        sums = [str(sum(one.reached for one in within)), str(sum(one.statements for one in within))]
        table.add_row(file, *sums, f"{percent(within):.0f}", ", ".join(missed))
    return table


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), help="GOCOVERDIR/VERSION")
@click.option("--at-least", default=0.0, help="fail below so many percent")
@click.option("--errors/--no-errors", default=True, help="count what happens on errors")
@click.option("--only", default="", help="files whose path matches: noderesources|nodeports")
def main(folder: Path, at_least: float, errors: bool, only: str) -> None:
    """Print a table of the reached statements, file by file."""
    everything = [one for one in read(folder, errors) if re.search(only, one.file)]
    ones = [one for one in everything if decides(one)]
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(_table(ones))
    console.print(f"{percent(everything):.1f} % of all statements of these plugins")
    console.print(f"{percent(ones):.1f} % of the statements that decide about pods")
    sys.exit(int(percent(ones) < at_least))


if __name__ == "__main__":
    main()
