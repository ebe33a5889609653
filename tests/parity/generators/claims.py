"""Cases about resource claims: nodes, classes, slices, claims that have devices or want some, and
pods that use them. Names are few, so that claims meet in the same devices.
"""

import copy
from collections import Counter
from random import Random

from shared.model.release import V1_35, V1_37
from tests.parity.generators.case_builder import Object

DRIVERS = ("gpu.example.com", "nic.example.com")
CLASSES = ("gpu", "nic", "any", "broken")
ZONES = ("a", "b")
API = "resource.k8s.io/v1"
SELECTORS = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "a100"',
    'device.attributes["gpu.example.com"].?model.orValue("") == "a100"',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    '"memory" in device.capacity[device.driver]',
    "device.attributes[device.driver].?index.orValue(9) > 1",
    'cel.bind(a, device.attributes["example.com"], has(a.numa) && a.numa == 0)',
    'device.attributes["gpu.example.com"].version.isGreaterThan(semver("1.2.0"))',
    'device.attributes["example.com"].healthy',
    'device.attributes["gpu.example.com"].index in [0, 2, 4]',
    "true",
    "false",
    "!device.allowMultipleAllocations",
    'device.attributes["gpu.example.com"].model.matches("^[ah]100$")',
)
ATTRIBUTES = ("example.com/numa", "gpu.example.com/model", "gpu.example.com/version")
POLICIES: dict[str, tuple[Object, ...]] = {
    "memory": (
        {"default": "10Gi", "validValues": ["5Gi", "10Gi", "20Gi"]},
        {"default": "5Gi", "validRange": {"min": "5Gi", "step": "5Gi", "max": "30Gi"}},
        {"default": "1Gi", "validRange": {"min": "1Gi"}},
        {"default": "2Gi"},
    ),
    "cores": (
        {"default": "500m", "validRange": {"min": "500m", "step": "250m"}},
        {"default": "1", "validRange": {"min": "1", "step": "1", "max": "3"}},
        {"default": "250m", "validValues": ["250m", "1", "4"]},
    ),
}
MATCHED = (*ATTRIBUTES, "gpu.example.com/index", "nic.example.com/index", "example.com/healthy")


def _object(kind: str, name: str, **rest: object) -> Object:
    found: Object = {"apiVersion": API, "kind": kind, "metadata": {"name": name}}
    if "uid" in rest:
        found["metadata"]["uid"] = rest.pop("uid")
    return found | rest


def case(seed: int, version: str = V1_37) -> Object:
    """One case for a release."""
    draw = Random(f"claims {seed}")
    names = [f"n{number}" for number in range(draw.randint(1, 4))]
    nodes = [_node(draw, name) for name in names]
    slices = [one for number in range(draw.randint(1, 4)) for one in _pool(draw, number, names)]
    draw.shuffle(slices)
    classes = [_class(draw, name) for name in CLASSES if draw.random() < 0.97]
    claims = [_claim(draw, f"c{number}", slices, names) for number in range(draw.randint(1, 6))]
    pods = [_pod(draw, number, claims) for number in range(draw.randint(1, 3))]
    if version == V1_35:
        slices = _in_one_order(slices)
        _without_lapses(claims)
    slices += _counters(Random(f"counters {seed}"), slices)
    _share(Random(f"shares {seed}"), slices, claims)
    rules = _taint_rules(Random(f"rules {seed}"))
    return {"objects": [*nodes, *classes, *slices, *claims, *rules], "pods": pods}


def _taint_rules(draw: Random) -> list[Object]:
    """Rules that taint devices, in some of the cases."""
    found = []
    for number in range(draw.choice((0, 0, 0, 1, 2))):
        names = {
            "driver": draw.choice(DRIVERS),
            "pool": f"p{draw.randint(0, 3)}",
            "device": f"d{draw.randint(0, 5)}",
        }
        selector = {key: names[key] for key in names if draw.random() < 0.4}
        spec: Object = {"taint": _taint(draw)}
        if draw.random() < 0.9:
            spec["deviceSelector"] = selector
        found.append(_object("DeviceTaintRule", f"t{number}", spec=spec))
    return found


def with_taints_in_slices(asked: Object, version: str) -> Object:
    """Return a case for an oracle, which reads no DeviceTaintRules: since 1.37 with their taints in
    the slices.
    """
    asked = copy.deepcopy(asked)
    rules = [one["spec"] for one in asked["objects"] if one["kind"] == "DeviceTaintRule"]
    slices = [one["spec"] for one in asked["objects"] if one["kind"] == "ResourceSlice"]
    asked["objects"] = [one for one in asked["objects"] if one["kind"] != "DeviceTaintRule"]
    for rule in rules if version >= V1_37 else ():
        selector = rule.get("deviceSelector", {"device": None})
        for spec in slices:
            for device in spec.get("devices", ()):
                is_of = {"driver": spec["driver"], "pool": spec["pool"]["name"]}
                if selector.items() <= (is_of | {"device": device["name"]}).items():
                    device.setdefault("taints", []).append(rule["taint"])
    return asked


def _counters(draw: Random, slices: list[Object]) -> list[Object]:
    """Slices with counters for some of the pools, whose devices consume them then."""
    found = []
    pools = dict.fromkeys(one["spec"]["pool"]["name"] for one in slices)
    for name in pools if draw.random() < 0.35 else ():
        here = [one["spec"] for one in slices if one["spec"]["pool"]["name"] == name]
        spec: Object = {"driver": here[0]["driver"], "pool": dict(here[0]["pool"])}
        place = draw.choice(here)
        places = [key for key in ("nodeName", "allNodes", "nodeSelector") if key in place]
        spec |= {key: place[key] for key in places} or {"allNodes": True}
        sets = ["g0", "g1"] if draw.random() < 0.95 else ["g0", "g0"]
        spec["sharedCounters"] = [{"name": one, "counters": _amounts(draw, (3, 4))} for one in sets]
        more = draw.random() < 0.97
        for one in [spec, *here]:
            one["pool"]["resourceSliceCount"] += more
        for device in (device for one in here for device in one["devices"]):
            names = draw.sample(sets, draw.choice((0, 1, 1, 1, 2)))
            if draw.random() < 0.01:
                names = ["g2"]
            device["consumesCounters"] = [
                {"counterSet": one, "counters": _amounts(draw, (1, 2))} for one in names
            ]
        found.append(_object("ResourceSlice", f"s{draw.randint(0, 99)}-{name}", spec=spec))
    return found


def _share(draw: Random, slices: list[Object], claims: list[Object]) -> None:
    """Let claims share devices, in some of the cases."""
    if draw.random() < 0.65:
        return
    shared = set()
    for spec in (one["spec"] for one in slices):
        for device in spec.get("devices", ()):
            if draw.random() < 0.8:
                device["allowMultipleAllocations"] = draw.random() < 0.9
                shared.add((spec["driver"], spec["pool"]["name"], device["name"]))
            capacity = device.setdefault("capacity", {}) if draw.random() < 0.8 else {}
            if draw.random() < 0.5:
                capacity["cores"] = {"value": draw.choice(("2", "4", "8500m"))}
            for name in [one for one in capacity if draw.random() < 0.7]:
                capacity[name] |= {"requestPolicy": draw.choice(POLICIES[name])}
    for claim in claims:
        for request in claim["spec"]["devices"]["requests"]:
            for one in request.get("firstAvailable") or [request["exactly"]]:
                if draw.random() < 0.4:
                    one["capacity"] = {"requests": _asked(draw)}
        allocation = claim.get("status", {}).get("allocation", {"devices": {"results": []}})
        for number, one in enumerate(allocation["devices"]["results"]):
            if (one["driver"], one["pool"], one["device"]) in shared and draw.random() < 0.9:
                one["shareID"] = f"{claim['metadata']['name']}-{number}"
                if draw.random() < 0.8:
                    one["consumedCapacity"] = _asked(draw)


def _asked(draw: Random) -> Object:
    found = {
        "memory": draw.choice(("1Gi", "10Gi", "12Gi", "20G", "50Gi", "1500m")),
        "cores": draw.choice(("100m", "500m", "600m", "1", "3")),
        "other": "1",
    }
    names = draw.choice((("memory",), ("memory",), ("memory",), ("cores",), ("memory", "cores")))
    return {name: found[name] for name in (*names, *(["other"] if draw.random() < 0.03 else ()))}


def _amounts(draw: Random, among: tuple[int, ...]) -> Object:
    memory, cores = draw.choice(among), draw.choice(among)
    return {"memory": {"value": f"{memory * 10}Gi"}, "cores": {"value": f"{cores * 500}m"}}


def _in_one_order(slices: list[Object]) -> list[Object]:
    """At most one slice for each node: 1.35 takes several in an order of chance."""
    kept = {one["spec"]["nodeName"]: one for one in slices if "nodeName" in one["spec"]}
    found = list(kept.values()) or slices[:1]
    pools = Counter(one["spec"]["pool"]["name"] for one in found)
    for one in found:
        pool = one["spec"]["pool"]
        if pool["resourceSliceCount"] > 1:
            pool["resourceSliceCount"] = pools[pool["name"]]
    return found


def _without_lapses(claims: list[Object]) -> None:
    """1.35 mixes up the devices of alternatives with allocationMode All: none is left. It refuses
    distinctAttribute, which is left in one claim.
    """
    requests = (one for claim in claims for one in claim["spec"]["devices"]["requests"])
    for one in (one for request in requests for one in request.get("firstAvailable", ())):
        one["allocationMode"] = "ExactCount"
        one.setdefault("count", 1)
    for one in (one for claim in claims[1:] for one in claim["spec"]["devices"]["constraints"]):
        if "distinctAttribute" in one:
            one["matchAttribute"] = one.pop("distinctAttribute")


def _node(draw: Random, name: str) -> Object:
    labels = {"kubernetes.io/hostname": name, "zone": draw.choice(ZONES), "rank": name[1:]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}} | {
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"}}
    }


def _selector(draw: Random) -> Object:
    need: Object = draw.choice(
        (
            {"key": "zone", "operator": "In", "values": [draw.choice(ZONES)]},
            {"key": "zone", "operator": "NotIn", "values": [draw.choice(ZONES)]},
            {"key": "rank", "operator": "Gt", "values": ["0"]},
            {"key": "absent", "operator": "DoesNotExist"},
        )
    )
    term: Object = {"matchExpressions": [need]}
    if draw.random() < 0.2:
        named = {"key": "metadata.name", "operator": "In", "values": ["n0"]}
        term["matchFields"] = [named]
    return {"nodeSelectorTerms": [term]}


def _place(draw: Random, names: list[str]) -> Object:
    which = draw.random()
    if which < 0.5:
        return {"nodeName": draw.choice(names)}
    if which < 0.75:
        return {"allNodes": True}
    return {"nodeSelector": _selector(draw)}


def _pool(draw: Random, number: int, names: list[str]) -> list[Object]:
    driver, pool = draw.choice(DRIVERS), f"p{number}"
    count = draw.choice((1, 1, 1, 2, 3))
    place = _place(draw, names)
    found = []
    for part in range(count + draw.choice((0,) * 8 + (-1, 1))):
        each = draw.random() < 0.15
        here = _place(draw, names) if draw.random() < 0.2 else place
        spec: Object = {"driver": driver, "pool": {"name": pool, "resourceSliceCount": count}}
        spec["pool"]["generation"] = draw.choice((1,) * 9 + (2,))
        spec |= {"perDeviceNodeSelection": True} if each else here
        devices = [
            _device(draw, driver, part * 4 + at) for at in range(draw.choice((0, 1, 2, 3, 3)))
        ]
        if each:
            devices = [one | _place(draw, names) for one in devices]
        spec["devices"] = devices
        found.append(_object("ResourceSlice", f"s{draw.randint(0, 99)}-{number}-{part}", spec=spec))
    return found


def _device(draw: Random, driver: str, number: int) -> Object:
    name = f"d{number if draw.random() < 0.97 else 0}"
    attributes: Object = {"index": {"int": number}}
    if draw.random() < 0.8:
        attributes["example.com/numa"] = {"int": draw.randint(0, 1)}
    if draw.random() < 0.7:
        attributes["model"] = {"string": draw.choice(("a100", "h100", "l4"))}
    if draw.random() < 0.7:
        version = draw.choice(("1.2.0", "1.10.0", "1.3.0-rc.1", "2.0.0+b"))
        attributes["gpu.example.com/version"] = {"version": version}
    if draw.random() < 0.9:
        attributes["example.com/healthy"] = {"bool": draw.random() < 0.8}
    if draw.random() < 0.1:
        attributes["example.com/numa"] = {"string": "0"}
    found: Object = {"name": name, "attributes": attributes}
    if draw.random() < 0.8:
        found["capacity"] = {"memory": {"value": draw.choice(("80Gi", "40Gi", "24G", "1500m"))}}
    if draw.random() < 0.25:
        found["taints"] = [_taint(draw) for _ in range(draw.randint(1, 2))]
    return found


def _taint(draw: Random) -> Object:
    effect = draw.choice(("NoSchedule", "NoExecute", "None"))
    when = "2026-01-01T00:00:00Z"
    found = {"key": draw.choice("kl"), "effect": effect, "timeAdded": when}
    return found | ({"value": draw.choice("vw")} if draw.random() < 0.5 else {})


def _toleration(draw: Random) -> Object:
    if draw.random() < 0.3:
        return {"operator": "Exists"}
    found: Object = {"key": draw.choice("kl")}
    if draw.random() < 0.5:
        found |= {"operator": "Exists"}
    elif draw.random() < 0.7:
        found |= {"operator": "Equal", "value": draw.choice("vw")}
    if draw.random() < 0.6:
        found["effect"] = draw.choice(("NoSchedule", "NoExecute"))
    return found


def _cel(draw: Random) -> list[Object]:
    count = draw.choice((0, 0, 1, 1, 2))
    return [{"cel": {"expression": _expression(draw)}} for _ in range(count)]


def _expression(draw: Random) -> str:
    """Most of the time one that has a result for each device."""
    if draw.random() < 0.12:
        return draw.choice(SELECTORS)
    safe = [one for one in SELECTORS if "?" in one or "has(" in one or "in device" in one]
    safe += ["true", "!device.allowMultipleAllocations", SELECTORS[0]]
    return draw.choice(safe)


def _class(draw: Random, name: str) -> Object:
    spec: Object = {"selectors": [], "config": []}
    if name in ("gpu", "nic"):
        spec["selectors"] = [{"cel": {"expression": f'device.driver == "{name}.example.com"'}}]
    if name == "broken":
        spec["selectors"] = _cel(draw)
    for _ in range(draw.choice((0, 0, 1, 2))):
        spec["config"].append({"opaque": _opaque(draw)})
    return _object("DeviceClass", name, spec=spec)


def _opaque(draw: Random) -> Object:
    return {"driver": draw.choice(DRIVERS), "parameters": {"mode": draw.choice("xyz")}}


def _wanted(draw: Random) -> Object:
    known = ("gpu", "gpu", "gpu", "nic", "any", "broken")
    found: Object = {"deviceClassName": draw.choice(known), "selectors": _cel(draw)}
    if draw.random() < 0.12:
        found["allocationMode"] = "All"
    else:
        found |= {"allocationMode": "ExactCount", "count": draw.choice((1, 1, 1, 2, 2, 3))}
        if draw.random() < 0.04:
            found["count"] = draw.choice((16, 20, 32, 33))
    if draw.random() < 0.5:
        found["tolerations"] = [_toleration(draw) for _ in range(draw.randint(1, 2))]
    return found


def _request(draw: Random, name: str) -> Object:
    if draw.random() < 0.3:
        choice = [{"name": f"s{at}"} | _wanted(draw) for at in range(draw.choice((1, 2, 2, 3)))]
        return {"name": name, "firstAvailable": choice}
    exactly = _wanted(draw)
    if draw.random() < 0.1:
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _names(draw: Random, requests: list[Object]) -> list[str]:
    """Names of requests, and of their alternatives."""
    all_names = [one["name"] for one in requests]
    for one in requests:
        all_names += [f"{one['name']}/{sub['name']}" for sub in one.get("firstAvailable", ())]
    return draw.sample(all_names, draw.randint(0, min(2, len(all_names))))


def _claim(draw: Random, name: str, slices: list[Object], nodes: list[str]) -> Object:
    requests = [_request(draw, f"r{at}") for at in range(draw.choice((1, 1, 1, 2, 3)))]
    devices: Object = {"requests": requests}
    devices["constraints"] = [
        {"requests": _names(draw, requests)}
        | {draw.choice(("matchAttribute", "distinctAttribute")): draw.choice(MATCHED)}
        for _ in range(draw.choice((0, 0, 0, 1, 1, 2)))
    ]
    devices["config"] = [
        {"requests": _names(draw, requests), "opaque": _opaque(draw)}
        for _ in range(draw.choice((0, 0, 1, 2)))
    ]
    found = _object("ResourceClaim", name, spec={"devices": devices}, uid=f"uid-{name}")
    found["metadata"]["namespace"] = "default"
    if draw.random() < 0.35:
        found["status"] = {"allocation": _allocation(draw, requests, slices, nodes)}
    if draw.random() < 0.03:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


def _allocation(
    draw: Random, requests: list[Object], slices: list[Object], nodes: list[str]
) -> Object:
    results = []
    for request in requests:
        for one in draw.sample(slices, min(1, len(slices))):
            spec = one["spec"]
            name = request["name"]
            if "firstAvailable" in request:
                name += "/" + draw.choice(request["firstAvailable"])["name"]
            for device in draw.sample(spec["devices"], min(2, len(spec["devices"]))):
                found = {"request": name, "driver": spec["driver"], "pool": spec["pool"]["name"]}
                found["device"] = device["name"]
                results.append(found | ({"adminAccess": True} if draw.random() < 0.15 else {}))
    allocation: Object = {"devices": {"results": results}}
    if draw.random() < 0.6:
        allocation["nodeSelector"] = draw.choice((_selector(draw), _on(draw.choice(nodes))))
    return allocation


def _on(node: str) -> Object:
    need = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [need]}]}


def _pod(draw: Random, number: int, claims: list[Object]) -> Object:
    uid = f"pod-{number}"
    used, statuses = [], []
    for at, claim in enumerate(draw.sample(claims, draw.randint(0, min(3, len(claims))))):
        name = claim["metadata"]["name"]
        if draw.random() < 0.6:
            used.append({"name": f"x{at}", "resourceClaimName": name})
            continue
        used.append({"name": f"x{at}", "resourceClaimTemplateName": "t"})
        if draw.random() < 0.95:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": f"w{number}", "controller": True}
            owner["uid"] = uid if draw.random() < 0.95 else "other"
            claim["metadata"].setdefault("ownerReferences", [owner])
            statuses.append({"name": f"x{at}", "resourceClaimName": name})
    if draw.random() < 0.03:
        used.append({"name": "y", "resourceClaimName": "missing"})
    if draw.random() < 0.03:
        used.append({"name": "z", "resourceClaimTemplateName": "unneeded"})
        statuses.append({"name": "z"})
    resources: Object = {"requests": {"cpu": "1"}}
    resources |= {"claims": [{"name": one["name"]} for one in used]}
    container = {"name": "c", "image": "i", "resources": resources}
    spec = {"containers": [container], "resourceClaims": used}
    meta = {"name": f"w{number}", "namespace": "default", "uid": uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec} | {
        "status": {"resourceClaimStatuses": statuses}
    }
