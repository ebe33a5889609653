"""Objects with fields at their API limits, drawn from a seed: object k of a seed is always the
same.

The API server may refuse some of them; the tests are about those that it accepts.
"""

import random
from collections.abc import Callable
from typing import Any

from tests.live.support.objects import PODS

NODES = "/api/v1/nodes"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
SERVICES = "/api/v1/namespaces/default/services"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
INT64_MAX, INT32_MAX, INT32_MIN = (1 << 63) - 1, (1 << 31) - 1, -(1 << 31)
NAME_MAX, LABEL_MAX = 253, 63
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU, SHARE, WIDGET = "nvidia.com/gpu", "muster.io/gpu-milli", "example.com/widget"
PRIORITIES = {"least": INT32_MIN, "none": 0, "most": 1_000_000_000}
WHOLE = ("0", "1", "63", "64", "1000001", str(1 << 53), str(INT64_MAX))
QUANTITIES = (
    *("0", "1m", "0.1n", "+5", "5.", "100m", "1", "2", "999999999999", "9223372036854775"),
    *("1e18", "1E", "1000000E", "1.0000000000000000000000000001", "1e-18", str(INT64_MAX)),
)
BYTES = (
    *("0", "1", "64Mi", "1Gi", "63Gi", "64Ti", "65Ti", "4Pi", "7Ei", "8Ei", "7999999999999999999"),
    *(str(INT64_MAX), str(INT64_MAX - 1), "9223372036854775808", "1e18", "9E", "0.5", "1e30"),
)
INTEGERS = ("0", "-1", "9" * 18, str(INT64_MAX), str(-INT64_MAX - 1), str(1 << 63), "x", "1.5", "")
TEXTS = ("", "a", "A.b-c_d", "x" * LABEL_MAX, "0" * LABEL_MAX)


class Hostile:
    """One object; `path` is where it is created."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = random.Random(f"{seed}/{number}")
        self.number = number
        self.path, self.body = self._drawn()

    def _drawn(self) -> tuple[str, dict[str, Any]]:
        kinds: dict[str, tuple[int, Callable[[], dict[str, Any]]]] = {
            PODS: (40, self._pod),
            NODES: (4, self._node),
            BUDGETS: (2, self._budget),
            GROUPS: (2, self._group),
            SERVICES: (1, self._service),
            CLAIMS: (1, self._claim),
        }
        path = self.rng.choices(list(kinds), [weight for weight, _ in kinds.values()])[0]
        return path, kinds[path][1]()

    # ------------------------------------------------------------------------- small parts

    def _is(self, share: float) -> bool:
        return self.rng.random() < share

    def _name(self, kind: str) -> str:
        name = f"{kind}-{self.number}"
        if kind != "service" and self._is(0.1):
            name += "x" * (NAME_MAX - len(name))
        return name

    def _labels(self) -> dict[str, str]:
        count = 1_000 if self._is(0.005) else self.rng.choice((0, 1, 3))
        more = {f"k{at}.{'y' * 40}/{'z' * 60}": self.rng.choice(TEXTS) for at in range(count)}
        return {"app": self.rng.choice(("a", "b", "c")), **more}

    def _meta(self, kind: str) -> dict[str, Any]:
        return {"name": self._name(kind), "labels": self._labels()}

    def _integer(self, *more: int) -> int:
        return self.rng.choice((0, 1, INT32_MAX, *more))

    def _expression(self, is_of_nodes: bool) -> dict[str, Any]:
        key = self.rng.choice((ZONE, HOST, "number", "app"))
        operators = ["In", "NotIn", "Exists", "DoesNotExist"]
        operator = self.rng.choice(operators + ["Gt", "Lt"] * is_of_nodes)
        made: dict[str, Any] = {"key": key, "operator": operator}
        if operator in ("Gt", "Lt"):
            made["values"] = [self.rng.choice(INTEGERS)]
        elif operator in ("In", "NotIn"):
            made["values"] = [self.rng.choice((*TEXTS, "a", "b"))] * self.rng.choice((1, 1, 200))
        return made

    def _selector(self) -> dict[str, Any]:
        if self._is(0.2):
            return {}
        count = self.rng.choice((1, 1, 2, 30))
        return {"matchExpressions": [self._expression(False) for _ in range(count)]}

    def _amounts(self) -> dict[str, str]:
        some = {
            "cpu": QUANTITIES,
            "memory": BYTES,
            "ephemeral-storage": BYTES,
            "hugepages-2Mi": ("2Mi", "1Gi", "4Pi"),
            WIDGET: WHOLE,
            GPU: WHOLE,
            SHARE: ("1", "1000", "1001", str(INT64_MAX)),
        }
        share = {"cpu": 0.7, "memory": 0.6}
        return {
            name: self.rng.choice(choices if self._is(0.4) else choices[:5])
            for name, choices in some.items()
            if self._is(share.get(name, 0.15))
        }

    # -------------------------------------------------------------------------------- pods

    def _pod(self) -> dict[str, Any]:
        rng = self.rng
        spec: dict[str, Any] = {
            "schedulerName": "muster",
            "containers": [self._container(at) for at in range(rng.choice((1, 1, 1, 2, 5, 50)))],
            "priorityClassName": rng.choice(tuple(PRIORITIES)),
        }
        if self._is(0.3):
            spec["initContainers"] = [self._container(at, "init") for at in (1, 2)]
        if self._is(0.1):
            spec["resources"] = {"requests": {"cpu": rng.choice(QUANTITIES), "memory": "7Ei"}}
        if self._is(0.05):
            spec["nodeName"] = f"plain-{rng.randrange(3)}"
        if self._is(0.05):
            spec["schedulingGates"] = [{"name": "example.com/gate"}]
        if self._is(0.1):
            name = f"group-{self.number - rng.randrange(50)}"
            spec["schedulingGroup"] = {"podGroupName": name}
        if self._is(0.05):
            claim = f"claim-{self.number - rng.randrange(50)}"
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        spec |= self._rules()
        return {"apiVersion": "v1", "kind": "Pod", "metadata": self._meta("pod"), "spec": spec}

    def _container(self, at: int, kind: str = "c") -> dict[str, Any]:
        requests = self._amounts()
        fixed = (WIDGET, GPU, SHARE, "hugepages-2Mi")
        limits = {name: amount for name, amount in requests.items() if name in fixed}
        made: dict[str, Any] = {
            "name": f"{kind}{at}",
            "image": f"registry.invalid/{'i' * 200}:{at}",
        }
        made["resources"] = {"requests": requests, "limits": limits}
        if kind == "init" and self._is(0.5):
            made["restartPolicy"] = "Always"
        if self._is(0.05):
            port = self.rng.choice((1, 8080, 65_535))
            made["ports"] = [{"containerPort": port, "hostPort": port}]
        return made

    def _rules(self) -> dict[str, Any]:
        rng, rules = self.rng, {}
        if self._is(0.15):
            seconds = rng.choice((-INT64_MAX - 1, 0, INT64_MAX))
            ever = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            rules["tolerations"] = [ever] * rng.choice((1, 1, 1_000))
        if self._is(0.15):
            rules["topologySpreadConstraints"] = [self._spread(key) for key in (ZONE, HOST)]
        affinity: dict[str, Any] = {}
        if self._is(0.15):
            affinity["nodeAffinity"] = self._node_affinity()
        for kind in ("podAffinity", "podAntiAffinity"):
            if self._is(0.08):
                affinity[kind] = self._pod_affinity()
        return {**rules, "affinity": affinity} if affinity else rules

    def _spread(self, key: str) -> dict[str, Any]:
        hard = self._is(0.5)
        made: dict[str, object] = {
            "topologyKey": key,
            "maxSkew": self.rng.choice((1, 2, INT32_MAX)),
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": self._selector(),
        }
        return {**made, "minDomains": self.rng.choice((1, INT32_MAX))} if hard else made

    def _node_affinity(self) -> dict[str, Any]:
        counts = self.rng.choice(((1, 1), (2, 2), (1, 100)))
        term = {"matchExpressions": [self._expression(True) for _ in range(counts[0])]}
        preferred = {"weight": self.rng.choice((1, 100)), "preference": term}
        found: dict[str, Any] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [preferred] * counts[1]
        }
        if self._is(0.5):
            required = {"nodeSelectorTerms": [term] * counts[1]}
            found["requiredDuringSchedulingIgnoredDuringExecution"] = required
        return found

    def _pod_affinity(self) -> dict[str, Any]:
        term = {"topologyKey": self.rng.choice((ZONE, HOST)), "labelSelector": self._selector()}
        if self._is(0.3):
            term["namespaceSelector"] = self._selector()
        weighted = {"weight": 100, "podAffinityTerm": term}
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        found: dict[str, Any] = {preferred: [weighted] * 20}
        if self._is(0.4):
            found["requiredDuringSchedulingIgnoredDuringExecution"] = [term]
        return found

    # ---------------------------------------------------------------------- everything else

    def _node(self) -> dict[str, Any]:
        rng, name = self.rng, f"node-{self.number}"
        has = {**self._amounts(), "pods": rng.choice(WHOLE)}
        has.pop(SHARE, None)
        taint = {"key": "t", "value": "x" * LABEL_MAX, "effect": rng.choice(("NoSchedule",) * 3)}
        taints = [{**taint, "key": f"t{at}"} for at in range(rng.choice((0, 0, 0, 1, 500)))]
        labels = {**self._labels(), HOST: name, ZONE: rng.choice("abc"), "number": "0" * LABEL_MAX}
        image: dict[str, object] = {
            "names": [f"registry.invalid/{'i' * 200}:0"],
            "sizeBytes": INT64_MAX,
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": self._is(0.1)},
            "status": {"allocatable": has, "capacity": has, "images": [image] * 50},
        }

    def _budget(self) -> dict[str, Any]:
        which = self.rng.choice(("minAvailable", "maxUnavailable"))
        much = self.rng.choice((0, INT32_MAX, "0%", "100%"))
        spec = {which: much, "selector": self._selector()}
        kind = "PodDisruptionBudget"
        return {"kind": kind, "metadata": self._meta("budget"), "spec": spec}

    def _group(self) -> dict[str, Any]:
        policy = {"gang": {"minCount": self.rng.choice((1, 2, 3, INT32_MAX))}}
        meta = {"name": f"group-{self.number}", "labels": self._labels()}
        return {"kind": "PodGroup", "metadata": meta, "spec": {"schedulingPolicy": policy}}

    def _service(self) -> dict[str, Any]:
        spec = {"selector": {"app": self.rng.choice("abc")}, "ports": [{"port": 65_535}]}
        return {"kind": "Service", "metadata": self._meta("service"), "spec": spec}

    def _claim(self) -> dict[str, Any]:
        asked = {"requests": {"storage": self.rng.choice(("1", "7Ei", str(INT64_MAX)))}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": asked, "storageClassName": "none"}
        meta = {"name": f"claim-{self.number}", "labels": self._labels()}
        return {"kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
