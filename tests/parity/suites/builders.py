"""Small Kubernetes objects, and the oracle's answers about them."""

from tests.support.builders import make_node, make_pod

UNRESOLVABLE = "UnschedulableAndUnresolvable"


def node(name="a", *, cpu="4", memory="8Gi", pods="110", labels=None, images=(), **spec):
    builder = make_node(name).labels(labels).spec(**spec).capacity(cpu, memory, pods)
    return builder.status(images=list(images)).obj()


def pod(name="p", requests=None, *, ports=(), status=None, **spec):
    builder = make_pod(name).metadata(namespace="default").requests(requests)
    builder.container(image="app", ports=list(ports))
    return builder.spec(**spec).status(**(status or {})).obj()


def named(*names):
    """Return required affinity with one term per name."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for name in names
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def case(*objects, asked, config=None):
    return {"objects": list(objects), "pods": [asked], "config": config}


def only(oracle, *objects, asked, config=None):
    answer = oracle.ask(case(*objects, asked=asked, config=config))
    assert "error" not in answer, answer
    [told] = answer["pods"]
    return told


def refused(code, plugin, *reasons):
    return {
        "feasible": False,
        "code": code,
        "plugin": plugin,
        "reasons": list(reasons),
        "scores": {},
        "total": 0,
    }


def taken(**scores):
    # These two score such pods with 0.
    scores = {"ImageLocality": 0, "DynamicResources": 0, "TaintToleration": 300, **scores}
    return {
        "feasible": True,
        "code": "Success",
        "plugin": "",
        "reasons": [],
        "scores": scores,
        "total": sum(scores.values()),
    }
