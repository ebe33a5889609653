"""Lock files: every requirement pinned and hashed, no addresses, run is a part of dev."""

import re

import pytest

from tests.tidy.source import ROOT, report

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
ADDRESS = re.compile(r"://|--(?:extra-)?index-url|--find-links|--trusted-host|@\s*(?:git|file)")
PIN = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>[^ ;\\]+)(?P<rest>.*)$")


def pins(text: str) -> dict[tuple[str, str], list[str]]:
    """(name==version, marker) to its hashes; anything that is not a pin is an error."""
    found: dict[tuple[str, str], list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        words = line.strip().rstrip("\\").strip()
        if not words or words.startswith("#"):
            continue
        if words.startswith("--hash=sha256:"):
            current.append(words)
            continue
        match = PIN.match(words)
        assert match, f"not a pinned requirement: {line}"
        current = found.setdefault(
            (f"{match['name']}=={match['version']}", match["rest"].strip(" ;")), []
        )
    return found


def test_there_are_lock_files():
    assert {path.name for path in LOCKS} >= {"run.txt", "dev.txt", "lock.txt"}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_lock_files_hold_no_addresses(lock):
    lines = lock.read_text(encoding="utf-8").splitlines()
    report([f"{lock.name}: {line}" for line in lines if ADDRESS.search(line)])


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_requirement_is_pinned_with_a_hash(lock):
    bare = [pin for pin, hashes in pins(lock.read_text(encoding="utf-8")).items() if not hashes]
    report([f"{lock.name}: {pin} has no hash" for pin, _marker in bare])


def test_dev_contains_run_with_equal_pins():
    run, dev = (
        pins((ROOT / "requirements" / name).read_text(encoding="utf-8"))
        for name in ("run.txt", "dev.txt")
    )
    # A marker may be missing in dev.txt: what runs needs on one system alone, others need anywhere.
    lacks = {one for one in run.keys() - dev.keys() if (one[0], "") not in dev}
    report([f"{pin} is in run.txt but not in dev.txt" for pin, _marker in lacks])


def test_an_address_is_seen():
    assert ADDRESS.search("x @ https://example.com/x")
    assert ADDRESS.search("--index-url somewhere")
    assert ADDRESS.search("x==1.0 --hash=sha256:abc") is None
