"""`muster score` asks HTTP extenders and uses their answers as kube-scheduler does: drawn cases,
and extenders that are slow, broken or contradictory.
"""

import base64
import json
import ssl
from pathlib import Path

import pytest

from tests.parity.comparison.compare import differences
from tests.parity.comparison.muster_answer import our_answer
from tests.parity.generators.extenders import case
from tests.parity.generators.kinds import IN_CI
from tests.parity.oracle.extender_server import (
    BABBLES,
    BREAKS,
    FAILS,
    INVENTS,
    NOBODY,
    NULL,
    PLAIN,
    SLEEPS,
    STRANGE,
    ExtenderServer,
)
from tests.parity.planted.patching import planted
from tests.simulation.planted import Bug
from tests.support.builders import make_node, make_pod
from tests.support.kube_credentials import make_certificates

SEEDS = range(IN_CI["extenders"])
RULES, CALLS = "shared.extenders.values", "shared.extenders.calls"
READER, CONFIG = (
    "shared.configuration.extenders",
    "shared.configuration.scheduler_config",
)

SEARCH, PROFILE = "shared.scheduling.cycle.sampling", "shared.scheduling.profile"


@pytest.fixture(scope="module")
def extender():
    server = ExtenderServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def answered(oracle, extender):
    """(case, kube-scheduler's answer, what it asked)"""
    found = []
    for seed in SEEDS:
        asked = case(seed, extender.url)
        extender.asked.clear()
        theirs = oracle.ask(asked)
        found.append((asked, theirs, sorted(extender.asked)))
    return found


def test_extenders_are_asked_the_same_and_count_the_same(answered, extender):
    refusals, scores, huge = 0, 0, 0
    for seed, (asked, theirs, calls) in zip(SEEDS, answered, strict=True):
        assert "error" not in theirs, f"seed {seed}: {theirs}"
        extender.asked.clear()
        assert differences(our_answer(asked), theirs) == [], f"seed {seed}"
        assert sorted(extender.asked) == calls, f"seed {seed}"
        nodes = [node for pod in theirs["pods"] for node in pod["nodes"].values()]
        refusals += any("like it" in text for node in nodes for text in node["reasons"])
        huge += any(node.get("total", 0) > 1 << 26 for node in nodes)
        scores += any(
            score > 0 and "http" in of for n in nodes for of, score in n["scores"].items()
        )
    assert refusals >= 25
    assert scores >= 25
    assert huge >= 5, "weights of extenders and plugins"


def _bug(name: str, seed: int, module: str, old: str, new: str) -> Bug:
    return Bug(name, module, (old, new), first=(seed,))


BUGS = (
    _bug("scores-not-scaled", 1, RULES, "weight * SCALE", "weight"),
    _bug("no-weight", 1, RULES, "* extender.weight", ""),
    _bug("both-may-be-resolved", 2, RULES, "if name not in unresolvable", "if True"),
    _bug("names-in-upper-case", 1, RULES, "str(key).lower(): inner", "str(key): inner"),
    _bug(
        "uninterested-extenders-asked",
        0,
        CALLS,
        "not one.filter_verb or not one.is_interested(pod)",
        "False",
    ),
    _bug("unasked-score-nothing", 1, CALLS, "found[one.url] = dict.fromkeys(nodes, 0)", "pass"),
    _bug(
        "asked-at-once", 1, CALLS, "nodes[name] for name in left}", "nodes[name] for name in nodes}"
    ),
    _bug("ignorable-first", 7, READER, "key=lambda one: one.ignorable", "key=lambda one: 0"),
    _bug("nothing-ignored", 27, CONFIG, "ignored or profile", "profile"),
    _bug("one-is-enough", 14, SEARCH, "and not profile.extended", ""),
    _bug("least-is-one", 6, PROFILE, "or profile.has_extenders", ""),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug, answered, extender):
    asked, theirs, calls = answered[bug.first[0]]
    extender.asked.clear()
    with planted(bug):
        changed = differences(our_answer(asked), theirs)
    assert changed or sorted(extender.asked) != calls


def one_case(url: str, manner: str, **more: object) -> dict:
    """Two nodes and a pod, and an extender of this manner."""
    extender = {"urlPrefix": f"{url}/x-{manner}", "filterVerb": "filter", "nodeCacheCapable": True}
    extender["httpTimeout"] = "60s"
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender | more],
    }
    nodes = [make_node(name).capacity(cpu="4", memory="8Gi", pods="10").obj() for name in "abcd"]
    return {"objects": nodes, "pods": [make_pod("p").obj()], "config": config}


@pytest.mark.parametrize("manner", [FAILS, BREAKS, INVENTS])
def test_a_failure_ends_the_cycle_in_kube_schedulers_words(manner, oracle, extender):
    asked = one_case(extender.url, manner)
    theirs = oracle.ask(asked)["error"].partition("default/p: ")[2]
    assert theirs
    assert our_answer(asked)["error"] == f"WorldError: case: Pod default/p: {theirs}"


@pytest.mark.parametrize("manner", [BABBLES, SLEEPS])
def test_a_failure_without_an_answer_ends_the_cycle(manner, oracle, extender):
    asked = one_case(extender.url, manner, httpTimeout="300ms")
    assert "error" in oracle.ask(asked)
    assert "x-" in our_answer(asked)["error"]


@pytest.mark.parametrize("manner", [FAILS, BREAKS, INVENTS, BABBLES, SLEEPS])
def test_an_ignorable_extender_is_ignored(manner, oracle, extender):
    asked = one_case(extender.url, manner, httpTimeout="300ms", ignorable=True)
    theirs = oracle.ask(asked)
    assert len(theirs["pods"][0]["best"]) == 4
    assert differences(our_answer(asked), theirs) == []


@pytest.mark.parametrize("manner", [FAILS, BREAKS, BABBLES, SLEEPS])
def test_scores_of_a_failed_extender_are_missing(manner, oracle, extender):
    verbs = {"filterVerb": "", "prioritizeVerb": "prioritize", "weight": 3}
    asked = one_case(extender.url, manner, httpTimeout="300ms", **verbs)
    theirs = oracle.ask(asked)
    assert len(theirs["pods"][0]["best"]) == 4
    assert differences(our_answer(asked), theirs) == []


@pytest.mark.parametrize("manner", [NULL, STRANGE])
@pytest.mark.parametrize("ignorable", [True, False])
@pytest.mark.parametrize("knows", [True, False])
def test_replies_of_null_and_about_unknown_nodes(manner, ignorable, knows, oracle, extender):
    more = {"ignorable": ignorable, "nodeCacheCapable": knows}
    asked = one_case(extender.url, manner, **more)
    theirs = oracle.ask(asked)
    assert differences(our_answer(asked), theirs) == []


@pytest.mark.parametrize("manner", [NOBODY, PLAIN])
def test_the_message_where_extenders_leave_no_node(manner, oracle, extender):
    asked = one_case(extender.url, manner)
    theirs = oracle.ask(asked)
    assert differences(our_answer(asked), theirs) == []


def test_an_address_without_a_server(oracle):
    asked = one_case("http://127.0.0.1:1", PLAIN)
    assert "error" in oracle.ask(asked)
    assert "127.0.0.1:1" in our_answer(asked)["error"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A server with a certificate, and the certificate's authority."""
    folder = tmp_path_factory.mktemp("extender")
    make_certificates(folder)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")
    server = ExtenderServer(tls)
    yield server.url, str(folder / "ca.crt")
    server.close()


WAYS = {
    "root": {"tlsConfig": {"caFile": "CA"}},
    "root and https": {"enableHTTPS": True, "tlsConfig": {"caFile": "CA"}},
    "root in the file": {"tlsConfig": {"caData": "DATA"}},
    "root in lines": {"tlsConfig": {"caData": "LINES"}},
    "not verified": {"tlsConfig": {"insecure": True}},
    "https, so not verified": {"enableHTTPS": True},
}
BAD_WAYS = {
    "nobody known signed it": {},
    "another name": {"tlsConfig": {"caFile": "CA", "serverName": "elsewhere.example"}},
}


def secure_case(secured, fields) -> dict:
    url, path = secured
    data = base64.b64encode(Path(path).read_bytes()).decode()
    lines = json.dumps(base64.encodebytes(Path(path).read_bytes()).decode())
    written = json.dumps(fields).replace('"CA"', json.dumps(path)).replace('"DATA"', f'"{data}"')
    written = written.replace('"LINES"', lines)
    return one_case(url, PLAIN, **json.loads(written))


@pytest.mark.parametrize("way", WAYS)
def test_extenders_over_tls(way, oracle, secured):
    asked = secure_case(secured, WAYS[way])
    theirs = oracle.ask(asked)
    assert "error" not in theirs, theirs
    assert differences(our_answer(asked), theirs) == []


@pytest.mark.parametrize("way", BAD_WAYS)
def test_an_unverified_extender_is_not_asked(way, oracle, secured):
    asked = secure_case(secured, BAD_WAYS[way])
    assert "certificate" in oracle.ask(asked)["error"]
    assert "certificate" in our_answer(asked)["error"]
