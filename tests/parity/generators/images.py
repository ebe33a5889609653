"""Cases with images on nodes: `case(seed)` is the case of the seed with images of containers and
nodes, and often with a configuration that weighs them.

The generator draws separately, so that the other cases do not change.
"""

from random import Random

from tests.parity.generators import cases
from tests.parity.generators.case_builder import MI, Object

NAMES = (
    *("app", "app:latest", "app:1", "team/app", "registry.example:5000/team/app"),
    *("registry.example:5000/team/app:2", "registry.example/app@sha256:0a1b", "docker.io/app"),
    *("tools:v1", "tools"),
)
"""As containers name them. Nodes name them with a tag, mostly."""
SIZES = (0, 9 * MI, 23 * MI, 60 * MI, 333 * MI + 1, 500 * MI, 999 * MI, 1500 * MI, 12_345 * MI)
WEIGHTS = (0, 1, 2, 3, 7, 40)
NAME = "default-scheduler"


def case(seed: int) -> Object:
    """One case, the same on every machine."""
    draw = Random(f"images {seed}")
    found = cases.case(seed)
    sizes = {name: draw.choice(SIZES) for name in NAMES}
    share = draw.choice((0.15, 0.4, 0.8))
    objects = found["objects"]
    for node in objects:
        if node["kind"] == "Node" and draw.random() < 0.9:
            node["status"]["images"] = _images(draw, sizes, share)
    for pod in [*found["pods"], *(one for one in objects if one["kind"] == "Pod")]:
        _name_images(draw, pod["spec"])
    if draw.random() < 0.4:
        found["config"] = _config(draw)
    return found


def _images(draw: Random, sizes: dict[str, int], share: float) -> list[Object]:
    """The images of one node; sizes may differ between nodes, and a name may occur twice."""
    found = []
    for name in NAMES:
        if draw.random() >= share:
            continue
        names = [name if ":" in name.rpartition("/")[2] else f"{name}:latest"]
        if draw.random() < 0.2:
            names.append(draw.choice(("other:1", name, *NAMES)))
        size_bytes = sizes[name] if draw.random() < 0.7 else draw.choice(SIZES)
        found.append({"names": names, "sizeBytes": size_bytes})
    if draw.random() < 0.1:
        found.append({"names": None, "sizeBytes": 5 * MI})
    draw.shuffle(found)
    return found


def _name_images(draw: Random, spec: Object) -> None:
    """Images for all containers, the same for some, and now and then one container more."""
    if draw.random() < 0.2:
        spec.setdefault("initContainers", []).append({"name": "more-init"})
    if draw.random() < 0.3:
        spec["containers"].append({"name": "more"})
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        container["image"] = draw.choice(("unknown:1", *NAMES))
    # Image volumes count from 1.36 on.
    if draw.random() < 0.1:
        spec["volumes"] = [{"name": "v", "image": {"reference": draw.choice(NAMES)}}]


def _config(draw: Random) -> Object:
    weighed = {"name": "ImageLocality", "weight": draw.choice(WEIGHTS)}
    point: Object = {"enabled": [weighed]}
    where = draw.choice(("score", "score", "multiPoint"))
    if where == "score" and draw.random() < 0.3:
        point["disabled"] = [{"name": "*"}]
    elif draw.random() < 0.15:
        point = {"disabled": [{"name": "ImageLocality"}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": NAME, "plugins": {where: point}}],
    }
