"""Words that must not be in the repository: places of one machine, package hosts, loose ends.

The patterns are put together from pieces, so that this file does not contain what it forbids.
"""

import re

import pytest

from tests.tidy.source import at, python_files, report, repository_files, text_of

SEP = "/"
MACHINE_FOLDERS = ("work", "root", "opt" + SEP + "wheels")
HOSTS = (
    ("pypi", "org"),
    ("python" + "hosted", "org"),
    ("maven", "apache", "org"),
    ("maven", "org"),
    ("npmjs", "org"),
    ("crates", "io"),
    ("proxy", "golang", "org"),
)
ARCHIVES = ("whl", "jar", "tgz", "zip", "tar" + "[.]gz")

FORBIDDEN = {
    "a path of one machine": re.compile(
        rf"(?<![\w.)}}\]-]){SEP}(?:{'|'.join(MACHINE_FOLDERS)})(?={SEP}|\b(?![\w-]))"
    ),
    "a package host": re.compile(
        r"\b(?:" + "|".join("[.]".join(host) for host in HOSTS) + r")\b", re.IGNORECASE
    ),
    "a download address": re.compile(rf"https?:{SEP}{SEP}\S+[.](?:{'|'.join(ARCHIVES)})\b"),
}
LOOSE_ENDS = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|X" + "XX)" + r"\b")


def offences(text: str) -> list[tuple[int, str, str]]:
    """Return line, kind of offence and word."""
    return [
        (number, what, match.group())
        for number, line in enumerate(text.splitlines(), start=1)
        for what, pattern in FORBIDDEN.items()
        for match in pattern.finditer(line)
    ]


def test_no_machine_paths_and_no_package_hosts():
    report(
        [
            f"{at(path, number)} holds {what}: {word}"
            for path in repository_files()
            for number, what, word in offences(text_of(path) or "")
        ]
    )


def test_no_loose_ends():
    report(
        [
            f"{at(path, number)} {line.strip()}"
            for path in python_files()
            for number, line in enumerate((text_of(path) or "").splitlines(), start=1)
            if LOOSE_ENDS.search(line)
        ]
    )


@pytest.mark.parametrize(
    "pieces",
    [
        ("cd ", SEP, "work", SEP, "main"),
        ("'", SEP, "root", SEP, ".cache'"),
        ("index ", "pypi", ".org"),
        ("https:", SEP, SEP, "files.", "python", "hosted", ".org"),
        ("https:", SEP, SEP, "example.com", SEP, "a-1.0", ".", "whl"),
        ("repo.", "maven", ".apache", ".org"),
    ],
    ids=["work", "root", "index", "files", "download", "jars"],
)
def test_a_forbidden_word_is_seen(pieces):
    assert offences("".join(pieces)) != []


@pytest.mark.parametrize(
    "text",
    [
        "frame/" + "work/x",
        "docs/root/x",
        "../shared/data",
        "/workloads/x",
        "https://kubernetes.io/docs",
    ],
)
def test_ordinary_words_pass(text):
    assert offences(text) == []
