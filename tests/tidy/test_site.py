"""The documentation: the site builds without a broken link, and what pages name is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from muster.metrics.collector import registry_with
from muster.metrics.follow import Followed
from tests.contract.test_recipes import PAGES, blocks
from tests.tidy.source import ROOT, at, report, repository_files, text_of

LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(?:#([^)\s]+))?\)")
FOLDERS = "services|shared|muster|tests|loadtest|deploy|examples|schemas|docs"
PLACE = re.compile(rf"`((?:{FOLDERS})/[^\s`]*)`")
PAGE_IN_CODE = re.compile(r"\bdocs/[\w/-]+(?:\.md)?")
PLACEHOLDER = re.compile(r"[A-Z]{2,}")


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    # Not --quiet: warnings that are not shown do not count as errors.
    command = ["-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(folder)]
    return subprocess.run(
        [sys.executable, *command],
        env={"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(folder)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site: Path):
    assert (site / "index.html").is_file()


@pytest.mark.slow
def test_a_broken_link_and_a_broken_anchor_are_seen(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(config, encoding="utf-8")
    page = "# Page\n[no page](nowhere.md) and [no heading](#nothing)\n"
    (tmp_path / "docs" / "index.md").write_text(page, encoding="utf-8")
    built = build(tmp_path / "site", tmp_path / "mkdocs.yml")
    assert built.returncode != 0
    assert "nowhere.md" in built.stderr
    assert "#nothing" in built.stderr


@pytest.mark.slow
def test_pages_beside_the_site_link_to_what_is_there(site: Path):
    broken = []
    for page in sorted(ROOT.glob("*.md")):
        for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
            if not (ROOT / target).exists():
                broken.append(f"{page.name} links to {target}")
            elif anchor and target.startswith("docs/"):
                built = site / target.removeprefix("docs/").replace(".md", ".html")
                if f'id="{anchor}"' not in built.read_text(encoding="utf-8"):
                    broken.append(f"{page.name} links to {target}#{anchor}")
    report(broken)


def test_files_that_pages_name_are_there():
    pages = [path for path in repository_files() if path.suffix == ".md"]
    made = {block.path for page in PAGES for block in blocks(page) if block.is_new}
    report(
        [
            f"{at(page)} names {place}"
            for page in pages
            for place in PLACE.findall(text_of(page) or "")
            if not (PLACEHOLDER.search(place) or place in made)
            and not any(ROOT.glob(place.rstrip("/")))
        ]
    )


def test_pages_that_code_names_are_there():
    sources = [path for path in repository_files() if path.suffix in {".py", ".yaml", ".toml"}]
    report(
        [
            f"{at(path)} names {page}"
            for path in sources
            if path.parent.name != "tidy"
            for page in PAGE_IN_CODE.findall(text_of(path) or "")
            if not any(ROOT.glob(f"{page}*"))
        ]
    )


def test_every_metric_has_its_row():
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    families = registry_with(Followed(), list).collect()
    report([f"{one.name} is missing" for one in families if f"`{one.name}" not in page])


def test_the_life_of_a_pod_needs_one_page_and_25_files():
    text = (ROOT / "docs" / "explanation" / "life-of-a-pod.md").read_text(encoding="utf-8")
    files = PLACE.findall(text)
    assert len(files) == len(set(files)) <= 25
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    report(
        [
            f"{path} has no {name}"
            for _, file, read, *_rest in rows
            for path in PLACE.findall(file)
            for name in re.findall(r"`(\w+)`", read)
            if not re.search(rf"(?:def|class) {name}\b", (ROOT / path).read_text(encoding="utf-8"))
        ]
    )
