"""Small Kubernetes objects, and the answers about them, for tests that ask the oracle."""

UNRESOLVABLE = "UnschedulableAndUnresolvable"


def node(name="a", *, cpu="4", memory="8Gi", pods="110", labels=None, images=(), **spec):
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": amounts, "images": list(images)},
    }


def pod(name="p", requests=None, *, ports=(), status=None, **spec):
    container = {
        "name": "c",
        "image": "app",
        "resources": {"requests": requests or {}},
        "ports": list(ports),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
        "status": status or {},
    }


def named(*names):
    """Required affinity with one term per name."""
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
    # These two have nothing to say about such pods, and say it with a 0.
    scores = {"ImageLocality": 0, "DynamicResources": 0, "TaintToleration": 300, **scores}
    return {
        "feasible": True,
        "code": "Success",
        "plugin": "",
        "reasons": [],
        "scores": scores,
        "total": sum(scores.values()),
    }
