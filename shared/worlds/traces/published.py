"""The published traces, which do not come with Muster: where the files are, sizes and checksums."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from shared.kubernetes.objects.errors import WorldError

SOURCE = "https://github.com/alibaba/clusterdata"


class TraceFile(Struct, frozen=True):
    """A file of a trace in the folder `origin` of SOURCE."""

    origin: str
    size_bytes: int
    sha256: str


_OPENB = "cluster-trace-gpu-v2023/csv"
FILES = {
    "openb_node_list_all_node.csv": TraceFile(
        _OPENB, 52_287, "5a85c2af79c66a1efff8bbcbda430400aae56d8431370d738480967e1a9c6b15"
    ),
    "openb_pod_list_default.csv": TraceFile(
        _OPENB, 575_468, "1ee7ed79c27a3b0861cda8ddba86a004c6aba904caafa329a76ae93ca63834a8"
    ),
    "openb_pod_list_gpuspec33.csv": TraceFile(
        _OPENB, 587_467, "eca4f746db1e5b25864ad021b55ece3943e101a3ebd4574d09dcb95c46117652"
    ),
    "disaggregated_DLRM_trace.csv": TraceFile(
        "cluster-trace-gpu-v2025",
        2_118_900,
        "fb17bc4b3f412d5280f70f04a1bdf2adfc4429d1e61237a5b106e86206414295",
    ),
}


def require_files(folder: Path, names: Sequence[str], instead: str) -> None:
    """Check that the files of a trace are in a folder. Raises WorldError, which says where to get
    the missing ones. `instead` is the other choice that the message offers.
    """
    missing = [name for name in names if name in FILES and not (folder / name).is_file()]
    if missing:
        parts = (
            f"{name} ({FILES[name].size_bytes:,} bytes, sha256 {FILES[name].sha256})"
            for name in missing
        )
        rule = (
            f"lacks {' and '.join(parts)}, which is in the folder {FILES[missing[0]].origin} of "
            f"{SOURCE}: put it there, or {instead}"
        )
        raise WorldError(str(folder), "", rule)


def is_published(path: Path) -> bool:
    """Return whether a file has the size of the published one of its name."""
    known = FILES.get(path.name)
    return known is not None and path.stat().st_size == known.size_bytes
