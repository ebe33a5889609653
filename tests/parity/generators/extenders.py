"""Cases with HTTP extenders: `case(seed, url)` is the case of the seed with up to three extenders
at a test server (extender_server.py), and sometimes with searches that end early.

The generator draws separately, so that the other cases do not change.
"""

from random import Random

from tests.parity.generators import cases, preemption, sampling
from tests.parity.generators.case_builder import GADGET, WIDGET, Object
from tests.parity.oracle.extender_server import (
    ACCUSES,
    FAILS,
    INVENTS,
    LOWER,
    NOBODY,
    NULL,
    PLAIN,
    SPARES,
    STRANGE,
)

MANNERS = (PLAIN, PLAIN, PLAIN, LOWER)


def case(seed: int, url: str) -> Object:
    """One case, the same on every machine but for the server's address."""
    draw = Random(f"extenders {seed}")
    found = sampling.case(seed) if draw.random() < 0.3 else cases.case(seed)
    for pod in found["pods"]:
        # The nominated node is tried first there, extenders included.
        pod.get("status", {}).pop("nominatedNodeName", None)
    extenders = _extenders(draw, url)
    if any("filterVerb" in one and not one.get("nodeCacheCapable") for one in extenders):
        # kube-scheduler scores nodes that come back as objects as if they had no pods.
        found["objects"] = [one for one in found["objects"] if one["kind"] != "Pod"]
    config = found.setdefault("config", _config(draw))
    config["extenders"] = extenders
    _heavier(Random(f"weights {seed}"), config)
    _stranger(Random(f"strange {seed}"), config)
    return found


def _stranger(draw: Random, config: Object) -> None:
    """In some cases an extender that answers with null, or with nodes that were not asked about."""
    if draw.random() < 0.2:
        one = draw.choice(config["extenders"])
        where = one["urlPrefix"].rpartition("-")[0]
        one["urlPrefix"] = f"{where}-{draw.choice((NULL, STRANGE))}"


def _heavier(draw: Random, config: Object) -> None:
    """In some cases large weights, of extenders and of a plugin."""
    if draw.random() < 0.2:
        for one in config["extenders"]:
            if "weight" in one:
                one["weight"] = draw.choice((1 << 20, 1 << 40))
        plugin = {"name": "NodeResourcesFit", "weight": draw.choice((1_000, (1 << 31) - 1))}
        points = config["profiles"][0].setdefault("plugins", {})
        points.setdefault("score", {}).setdefault("enabled", []).append(plugin)


def preempting_case(seed: int, url: str) -> Object:
    """A case of preemption with extenders that review victims. No two pods have started at the same
    time, so that no choice is random.
    """
    draw = Random(f"extenders preempt {seed}")
    found = preemption.case(seed)
    for one in found["objects"]:
        if one["kind"] == "Pod":
            one["metadata"]["uid"] = f"uid-{one['metadata']['name']}"
    for one in found["pods"]:
        one["metadata"]["uid"] = f"uid-{one['metadata']['name']}"
    config = found["config"] = _config(draw)
    extenders = [_preempts(draw, url, number) for number in range(draw.choice((1, 1, 2, 3)))]
    config["extenders"] = extenders
    return found


def _preempts(draw: Random, url: str, number: int) -> Object:
    ignorable = draw.random() < 0.3
    manner = draw.choice((FAILS, INVENTS, SPARES, ACCUSES)) if ignorable else draw.choice(MANNERS)
    if draw.random() < 0.1:
        manner = NOBODY
    made: Object = {
        "urlPrefix": f"{url}/p{number}{draw.randint(0, 99)}-{manner}",
        "ignorable": ignorable,
        "httpTimeout": "60s",
        "nodeCacheCapable": draw.random() < 0.6,
        "preemptVerb": "preempt",
    }
    if draw.random() < 0.2:
        name = f"example.com/managed-{number}"
        made["managedResources"] = [{"name": name, "ignoredByScheduler": True}]
    return made


def _config(draw: Random) -> Object:
    profile: Object = {"schedulerName": "default-scheduler"}
    if draw.random() < 0.2:
        profile["plugins"] = {"score": {"disabled": [{"name": "*"}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def _extenders(draw: Random, url: str) -> list[Object]:
    managed = [GADGET, WIDGET]
    draw.shuffle(managed)
    return [_extender(draw, url, number, managed) for number in range(draw.choice((1, 1, 2, 3)))]


def _extender(draw: Random, url: str, number: int, managed: list[str]) -> Object:
    ignorable = draw.random() < 0.3
    manner = draw.choice((FAILS, NOBODY)) if ignorable and draw.random() < 0.5 else ""
    made: Object = {
        "urlPrefix": f"{url}/e{number}{draw.randint(0, 99)}-{manner or draw.choice(MANNERS)}",
        "ignorable": ignorable,
        "httpTimeout": "60s",
        "nodeCacheCapable": draw.random() < 0.6,
    }
    verbs = draw.choice((("filter",), ("prioritize",), ("filter", "prioritize")))
    for verb in verbs:
        made[f"{verb}Verb"] = verb
    if "prioritize" in verbs:
        made["weight"] = draw.choice((1, 2, 5))
    if managed and draw.random() < 0.3:
        ignored = draw.random() < 0.5
        made["managedResources"] = [{"name": managed.pop(), "ignoredByScheduler": ignored}]
    return made
