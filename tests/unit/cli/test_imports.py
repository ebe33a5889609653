"""Each command loads only what it runs: a check without a clock that it starts quickly."""

import json
import subprocess
import sys

import pytest

from shared.kubernetes.client.credential_library import PACKAGES
from tests.tidy.source import ROOT

CHILD = """
import json, sys
from muster.cli.main import main

code = main(sys.argv[1:])
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
libraries = {name.partition(".")[0] for name, file in files.items() if "site-packages" in file}
print("\\n" + json.dumps([code, sorted(libraries), sorted(files)]))
"""
ALWAYS = {"click"}
DATA = {*ALWAYS, "msgspec", "numpy", "typing_extensions"}
JOURNALS = {*DATA, "cramjam"}
WORLDS = {*DATA, "yaml"}
WIRE = {"orjson", "httptools"}
ANY = "ingest queueing placement permit preemption binding"


def loaded(*words: str) -> tuple[int, set[str], set[str]]:
    """Return the exit code of a command, and the libraries and all modules that it loaded."""
    command = [sys.executable, "-c", CHILD, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    code, libraries, modules = json.loads(done.stdout.splitlines()[-1])
    return code, {name for name in libraries if not name.startswith("_")}, set(modules)


@pytest.mark.parametrize(
    ("words", "libraries", "services"),
    [
        ("--version", ALWAYS, ""),
        ("--help", ALWAYS, ""),
        ("run --help", ALWAYS, ""),
        ("score examples/case.json -o json", WORLDS | WIRE, "placement preemption queueing"),
        ("defrag examples/fragmented.yaml -o json", WORLDS | WIRE, ANY),
        ("defrag nowhere", WORLDS | WIRE, ANY),
        ("defrag --help", ALWAYS, ""),
        ("queues import nowhere", WORLDS, ""),
        ("story pod/a nowhere", JOURNALS, ""),
        ("why a nowhere", JOURNALS, ANY),
        ("replay nowhere", JOURNALS, ANY),
        ("get pods nowhere", JOURNALS, ANY),
        ("get runs", DATA, ""),
        ("run nowhere", JOURNALS | WORLDS | WIRE, ANY),
        ("flood --help", ALWAYS, ""),
        ("extender --help", ALWAYS, ""),
        ("flood nowhere", JOURNALS | WORLDS | WIRE, ANY),
        ("serve ingest --bus nowhere", JOURNALS | WORLDS | WIRE, ANY),
        ("cluster nowhere --listen nowhere", WORLDS, ""),
        ("simulate --help", ALWAYS, ""),
        ("simulate nowhere", JOURNALS | WORLDS, ANY),
        ("simulate --workloads nowhere", JOURNALS | WORLDS | WIRE, ANY),
    ],
)
def test_a_command_that_needs_no_server_loads_no_more_than_it_runs(words, libraries, services):
    code, found, modules = loaded(*words.split())
    assert code == (2 if "nowhere" in words else 0)
    assert not found - libraries
    cores = {name.split(".")[1] for name in modules if name.startswith("services.")}
    assert cores <= set(services.split())


def test_credentials_are_read_without_the_models_of_all_objects():
    """The empty packages do not stay: a later import gets the library's packages whole."""
    child = (
        "import sys\n"
        "from shared.kubernetes.client.credential_library import library\n"
        "print(library().config.__name__)\n"
        "print(*(name for name in sys.modules if name.startswith('kubernetes_asyncio')))\n"
    )
    command = [sys.executable, "-c", child]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    config, *modules = done.stdout.split()
    assert config in modules
    assert not set(PACKAGES) & set(modules)
    assert not [name for name in modules if name.startswith("kubernetes_asyncio.client.models")]
