"""A world with inter-pod rules: a seed's world with namespaces, labels and rules drawn on top."""

import dataclasses
import random

from msgspec.structs import replace

from muster.simulation.scenario import CONFIG, SPREADERS, Mutation, Scenario, make_scenario
from muster.simulation.worlds import ARRIVALS_MS, BALLAST, GIB, make_spec, make_world
from shared.events.observed import PodsSeen
from shared.model.cluster_objects import (
    ClusterObject,
    LabelSelector,
    Namespace,
    ReplicaSet,
    Service,
)
from shared.model.columns import join
from shared.model.objects import (
    Gang,
    PodSpec,
    PodTerm,
    PreferredPodTerm,
    Requirement,
    SpreadConstraint,
)
from shared.model.world import Arrival, World

HOST, ZONE = "kubernetes.io/hostname", "zone"
APPS = ("web", "job", "db")
TIERS = ("front", "back")
NAMESPACES = ("default", "blue", "green")
OWNERS = ("ReplicaSet/one", "ReplicaSet/two")
RULED = 0.3  # of the arrivals


def make_ruled_world(seed: int) -> World:
    """Return `make_world`'s world, with rules added."""
    world, rng = make_world(seed), random.Random(f"{seed}/ruled")
    objects = tuple(
        Namespace(uid=f"namespace.{name}", name=name, labels=(("colour", name),))
        for name in NAMESPACES[:2]
    )
    arrivals = tuple(_somebody(arrival, rng) for arrival in world.arrivals)
    other = random.Random(f"{seed}/namespaces")
    arrivals = tuple(_of_namespaces(arrival, other) for arrival in arrivals)
    return replace(world, name=f"ruled-{seed}", arrivals=arrivals, objects=objects)


def make_wide_gangs_world(seed: int) -> World:
    """Return a ruled world with gangs whose members have rules over zones: spread, apart, or
    together. Some rules count the members only, some other pods, too.
    """
    ruled, rng = make_ruled_world(seed), random.Random(f"{seed}/wide-gangs")
    gangs, arrivals = list(ruled.gangs), list(ruled.arrivals)
    for number in range(rng.randint(3, 5)):
        key = f"{rng.choice(NAMESPACES)}/ruled-{number}"
        spec, count = _member(rng)
        labels = (("app", rng.choice(APPS)), ("group", "one"), ("tier", rng.choice(TIERS)))
        least = rng.choice((count, max(2, count - 1)))
        gangs.append(Gang(key=key, min_count=least, timeout_ms=rng.choice((3_000, 6_000, 20_000))))
        names = [f"ruled-{number}-{member}" for member in range(count)]
        at_ms, first = rng.randrange(ARRIVALS_MS), rng.choice((count, rng.randint(1, count)))
        for part, late_ms in ((names[:first], 0), (names[first:], rng.randrange(10, 4_000))):
            seen = PodsSeen(
                spec=spec,
                uids=join(f"{name}-uid" for name in part),
                names=join(part),
                revisions=b"",
                labels=labels,
                gang=key,
                namespace=key.partition("/")[0],
            )
            if part:
                arrivals.append(Arrival(at_ms=at_ms + late_ms, pods=seen))
    arrivals.sort(key=lambda one: one.at_ms)
    return replace(ruled, name=f"wide-gangs-{seed}", arrivals=tuple(arrivals), gangs=tuple(gangs))


def _member(rng: random.Random) -> tuple[PodSpec, int]:
    """Return a spec with a rule over zones, and a number of members."""
    spec = make_spec(rng.choice((300, 900, 2_000)), GIB, priority=rng.choice((0, 20, 70)))
    alike = Requirement("group", "In", ("one",))
    chosen = (alike,) if rng.random() < 0.5 else (Requirement("app", "In", (rng.choice(APPS),)),)
    match rng.randrange(4):
        case 0 | 1:
            spread = SpreadConstraint(ZONE, rng.choice((1, 1, 2)), True, chosen)
            return replace(spec, spread=(spread,)), rng.randint(3, 8)
        case 2:
            return replace(spec, pod_anti_affinity=(PodTerm(ZONE, (alike,)),)), rng.randint(2, 3)
        case _:
            return replace(spec, pod_affinity=(PodTerm(ZONE, (alike,)),)), rng.randint(3, 6)


def make_spread_scenario(seed: int, placements: int = 1) -> Scenario:
    """Return a ruled world whose Services and ReplicaSets select pods and change during the run."""
    rng = random.Random(f"{seed}/spread")
    ruled = make_ruled_world(seed)
    arrivals = tuple(
        replace(one, pods=replace(one.pods, owner=rng.choice(("", *OWNERS))))
        for one in ruled.arrivals
    )
    objects = (*ruled.objects, *_spreaders(rng))
    world = replace(ruled, name=f"spread-{seed}", arrivals=arrivals, objects=objects)
    changes = tuple(Mutation(rng.uniform(1, 20), SPREADERS) for _ in range(rng.randint(6, 12)))
    made = make_scenario(seed, world, placements)
    return dataclasses.replace(
        made,
        config={**CONFIG, "ingest": {"default_spread": True}},
        mutations=(*made.mutations, *changes),
    )


def _spreaders(rng: random.Random) -> list[ClusterObject]:
    """Return a few Services and ReplicaSets for each namespace, by app or tier."""
    found: list[ClusterObject] = []
    for namespace in NAMESPACES:
        for number, label in enumerate((("app", "web"), ("app", "db"), ("tier", "front"))):
            meta = {"name": f"s-{number}", "namespace": namespace}
            found.append(Service(uid=f"s-{namespace}-{number}", **meta, selector=(label,)))
        for owner in OWNERS:
            name = owner.partition("/")[2]
            app_and_tier = LabelSelector((("app", rng.choice(APPS)), ("tier", rng.choice(TIERS))))
            meta = {"name": name, "namespace": namespace}
            found.append(ReplicaSet(uid=f"r-{namespace}-{name}", **meta, selector=app_and_tier))
    return found


def _somebody(arrival: Arrival, rng: random.Random) -> Arrival:
    pods = arrival.pods
    labels = tuple(sorted({**dict(pods.labels), "tier": rng.choice(TIERS)}.items()))
    namespace = pods.namespace if pods.gang else rng.choice(NAMESPACES)
    is_ruled = rng.random() < RULED and not pods.names.startswith(BALLAST)
    spec = _with_rules(pods.spec, rng) if is_ruled else pods.spec
    return replace(arrival, pods=replace(pods, spec=spec, labels=labels, namespace=namespace))


def _of_namespaces(arrival: Arrival, rng: random.Random) -> Arrival:
    """Make some namespace selectors require a missing label or key."""
    spec, form = arrival.pods.spec, rng.randrange(3)
    away = tuple(
        replace(term, namespace_selector=tuple(_unlike(one, form) for one in selector))
        if (selector := term.namespace_selector)
        else term
        for term in spec.pod_anti_affinity
    )
    return replace(arrival, pods=replace(arrival.pods, spec=replace(spec, pod_anti_affinity=away)))


def _unlike(need: Requirement, form: int) -> Requirement:
    match form:
        case 0:
            return Requirement(need.key, "NotIn", need.values)
        case 1:
            return Requirement(need.key, "DoesNotExist")
    return need


def _with_rules(spec: PodSpec, rng: random.Random) -> PodSpec:
    app = Requirement("app", "In", (rng.choice(APPS),))
    tier = Requirement("tier", rng.choice(("In", "NotIn")), (rng.choice(TIERS),))
    colour = (Requirement("colour", "In", (rng.choice(NAMESPACES),)),)
    app_and_tier = (app, tier)
    match rng.randrange(7):
        case 0:
            return replace(
                spec, spread=(SpreadConstraint(ZONE, rng.choice((1, 2)), True, app_and_tier),)
            )
        case 1:
            both = (
                SpreadConstraint(HOST, 2, True, (app,)),
                SpreadConstraint(ZONE, 1, False, app_and_tier),
            )
            return replace(spec, spread=both)
        case 2:
            return replace(spec, pod_anti_affinity=(PodTerm(HOST, app_and_tier),))
        case 3:
            away = PodTerm(HOST, app_and_tier, (), colour)
            return replace(spec, pod_anti_affinity=(away,))
        case 4:
            return replace(spec, pod_affinity=(PodTerm(ZONE, (app,), ("default", "blue")),))
        case 5:
            rather = PreferredPodTerm(rng.choice((-50, 30)), PodTerm(ZONE, app_and_tier, (), ()))
            return replace(spec, pods_preferred=(rather,))
        case _:
            near = PodTerm(ZONE, (app,), (), ())
            return replace(
                spec, pod_affinity=(near,), spread=(SpreadConstraint(HOST, 3, True, app_and_tier),)
            )
