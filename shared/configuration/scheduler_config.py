"""KubeSchedulerConfiguration v1 to the profiles that Muster runs; errors name file, field and rule.

Read as the kube-scheduler of a release reads `--config`: unknown fields are errors, its defaults
are filled in, and its validation is repeated. What only concerns how a scheduler process runs
(connection, profiling, parallelism) is checked and passed over; docs/reference/configuration.md
lists it.
"""

from pathlib import Path

from msgspec import structs

from shared.configuration.extenders import extenders_of
from shared.configuration.plugin_args import (
    API_VERSION,
    INT32_MAX,
    INT64_MAX,
    SECONDS_MAX,
    duration_ms,
    own_arguments,
    with_arguments,
)
from shared.configuration.plugins import expanded, plugin_set
from shared.extenders.values import Extender
from shared.kubernetes.objects.errors import WorldError, shown
from shared.kubernetes.objects.fields import Fields
from shared.model.election import NAMESPACE, Election
from shared.model.preemption.post_filter import FIRST, LAST, NOWHERE
from shared.model.profile import (
    BIND,
    DEFAULT_PREEMPTION,
    DEFAULT_SCHEDULER,
    DYNAMIC_RESOURCES,
    FILTER,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_ENQUEUE,
    PRE_FILTER,
    PRE_SCORE,
    QUEUE_SORT,
    RESERVE,
    SCORE,
    Configuration,
    CustomPlugin,
    Profile,
)
from shared.model.release import DEFAULT_RELEASE, Release
from shared.scheduling.api.custom.plugin import PLUGINS
from shared.worlds.documents import read_objects

KIND = "KubeSchedulerConfiguration"
JITTER = 1.2  # client-go's jitter of retries
SECOND_MS = 1_000
FIELDS = (
    *("apiVersion", "kind", "parallelism", "leaderElection", "clientConnection"),
    *("enableProfiling", "enableContentionProfiling", "percentageOfNodesToScore"),
    *("podInitialBackoffSeconds", "podMaxBackoffSeconds", "profiles", "extenders"),
    "delayCacheUntilActive",
)
NEEDS_PRE_FILTER = (
    *("NodePorts", "NodeResourcesFit", "VolumeRestrictions", "VolumeBinding"),
    *("PodTopologySpread", "InterPodAffinity"),
)
REJECTS = ("VolumeRestrictions", "VolumeBinding", "VolumeZone")
"""Plugins that run at preFilter and filter: both or none."""
NEEDS_PRE_SCORE = ("TaintToleration", "PodTopologySpread", "InterPodAffinity")
AT_ALL = (RESERVE, PRE_BIND)
"""Points at which VolumeBinding assumes and binds the volumes found at filter."""


def read_config(path: Path, release: Release = DEFAULT_RELEASE) -> Configuration:
    """Return the configuration in a file, YAML or JSON. Raises WorldError."""
    objects = list(read_objects(path)) if path.is_file() else []
    if not path.is_file():
        raise WorldError(str(path), "", "does not exist")
    if len(objects) != 1:
        raise WorldError(str(path), "", f"must hold one {KIND}, holds {len(objects)} objects")
    fields = Fields.root(str(path), objects[0].values)
    return config_of(fields, release)


def config_of(fields: Fields, release: Release = DEFAULT_RELEASE) -> Configuration:
    """Return the configuration in an object. Raises WorldError."""
    for key, right in (("apiVersion", API_VERSION), ("kind", KIND)):
        if fields.required_text(key) != right:
            raise fields.error(key, f"must be {right}, is {shown(fields.text(key))}")
    fields.only(FIELDS)
    _check_process(fields)
    share = _sampling(fields, None)
    extenders, ignored = extenders_of(fields)
    first_s = fields.integer("podInitialBackoffSeconds", 1, 1, INT64_MAX)
    most_s = fields.integer("podMaxBackoffSeconds", 10, 0, INT64_MAX)
    if most_s < first_s:
        raise fields.error("podMaxBackoffSeconds", f"must be at least {first_s}, as the first is")
    profiles = _profiles(fields, share, release)
    return Configuration(
        profiles=tuple(_extended(one, extenders, ignored) for one in profiles),
        backoff_initial_ms=min(first_s, SECONDS_MAX) * SECOND_MS,
        backoff_max_ms=min(most_s, SECONDS_MAX) * SECOND_MS,
        extenders=extenders,
        election=_election(fields.child("leaderElection")),
    )


def _extended(
    profile: Profile, extenders: tuple[Extender, ...], ignored: tuple[str, ...]
) -> Profile:
    """Return a profile with these extenders; the resources that only they check replace its ignored
    resources.
    """
    resources = ignored or profile.ignored_resources
    judged = any(one.filter_verb or one.prioritize_verb for one in extenders)
    return structs.replace(
        profile,
        extended=judged,
        has_extenders=bool(extenders),
        ignored_resources=resources,
    )


def _check_process(fields: Fields) -> None:
    """Check the fields about kube-scheduler's process."""
    fields.integer("parallelism", 16, 1, INT32_MAX)
    for key in ("enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"):
        fields.flag(key)
    client = fields.child("clientConnection")
    client.only(("kubeconfig", "acceptContentTypes", "contentType", "qps", "burst"))
    for key in ("kubeconfig", "acceptContentTypes", "contentType"):
        client.text(key)
    client.number("qps")
    client.integer("burst", 100, 0, INT32_MAX)


def _election(election: Fields) -> Election | None:
    """Return the leader election; None if every process leads."""
    names = ("resourceLock", "resourceName", "resourceNamespace")
    times = {"leaseDuration": 15_000.0, "renewDeadline": 10_000.0, "retryPeriod": 2_000.0}
    election.only(("leaderElect", *times, *names))
    for key in names:
        election.text(key)
    for key, default_ms in times.items():
        # An explicit 0 counts as absent, as in kube-scheduler.
        times[key] = duration_ms(election, key, default_ms) or default_ms
    if not election.flag("leaderElect", default=True):
        return None
    for key, value_ms in times.items():
        if value_ms < 0:
            raise election.error(key, "must be greater than zero")
    if times["leaseDuration"] <= times["renewDeadline"]:
        raise election.error("leaseDuration", "must be greater than renewDeadline")
    if times["renewDeadline"] <= JITTER * times["retryPeriod"]:
        raise election.error("renewDeadline", f"must be greater than {JITTER} x retryPeriod")
    if (election.text("resourceLock") or "leases") != "leases":
        raise election.error("resourceLock", 'must be "leases"')
    return Election(
        name=election.text("resourceName"),
        namespace=election.text("resourceNamespace") or NAMESPACE,
        lease_s=max(int(times["leaseDuration"] // SECOND_MS), 1),
        renew_s=times["renewDeadline"] / SECOND_MS,
        retry_s=times["retryPeriod"] / SECOND_MS,
    )


def _sampling(fields: Fields, default: int | None) -> int | None:
    """Return percentageOfNodesToScore; without it all nodes are scored."""
    key = "percentageOfNodesToScore"
    return fields.integer(key, 0, 0, 100) if fields.has(key) else default


def _profiles(fields: Fields, share: int | None, release: Release) -> tuple[Profile, ...]:
    written = list(fields.children("profiles")) or [fields.child("profiles[0]")]
    default = DEFAULT_SCHEDULER if len(written) == 1 else ""
    found: list[Profile] = []
    sorting = [plugin_set(one.child("plugins"), QUEUE_SORT, release) for one in written]
    if len(sorting[0].enabled) > 1:
        where = f"plugins.{QUEUE_SORT}.enabled"
        raise written[0].error(where, "only one queue sort plugin can be enabled")
    for one, queue_sort in zip(written, sorting, strict=True):
        profile = _profile(one, default, share, release)
        is_other = found and profile.queue_sort != found[0].queue_sort
        if is_other or queue_sort != sorting[0]:
            raise one.error(f"plugins.{QUEUE_SORT}", "has to match for all profiles")
        if any(profile.name == other.name for other in found):
            raise one.error("schedulerName", f"{shown(profile.name)} is a duplicate")
        found.append(profile)
    return tuple(found)


def _profile(fields: Fields, default: str, share: int | None, release: Release) -> Profile:
    fields.only(("schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig"))
    name = fields.text("schedulerName") if fields.has("schedulerName") else default
    if not name:
        raise fields.error("schedulerName", "is required")
    plugins = fields.child("plugins")
    points = expanded(plugins, release)
    names = {point: tuple(one.name for one in found) for point, found in points.items()}
    _check_points(plugins, names, name)
    # These have no preScore, or it never skips a pod.
    user_plugins = PLUGINS
    skippable = {*names[PRE_SCORE], DYNAMIC_RESOURCES, "ImageLocality", "NodeResourcesFit"}
    skippable |= {one for one in user_plugins if PRE_SCORE not in user_plugins[one].points}
    args = own_arguments(
        fields, {one for found in names.values() for one in found if one in user_plugins}
    )
    looks = {
        one for point in (PRE_FILTER, FILTER, SCORE) for one in names[point] if one in user_plugins
    }
    profile = Profile(
        name=name,
        names_nodes="NodeAffinity" in names[PRE_FILTER],
        keeps_to_node="NodeName" in names[PRE_FILTER],
        filters=names[FILTER],
        scores=tuple((one.name, one.weight) for one in points[SCORE]),
        always_scored=tuple(one for one in names[SCORE] if one not in skippable),
        preempts=DEFAULT_PREEMPTION in names[POST_FILTER],
        custom=tuple(
            CustomPlugin(one, user_plugins[one].sha256, one in names[PRE_FILTER], args[one])
            for one in sorted(looks)
        ),
        percentage_of_nodes_to_score=_sampling(fields, share),
        pre_enqueue=_own(args, names[PRE_ENQUEUE]),
        queue_sort=next(iter(_own(args, names[QUEUE_SORT])), None),
        reserve=_own(args, names[RESERVE]),
        permit=_own(args, names[PERMIT]),
        pre_bind=_own(args, names[PRE_BIND]),
        bind=_own(args, names[BIND]),
        post_bind=_own(args, names[POST_BIND]),
        post_filter=_post_filter(args, names[POST_FILTER]),
        claims=_claims(names[POST_FILTER]),
    )
    return with_arguments(profile, fields, release)


def _post_filter(args: dict[str, str], names: tuple[str, ...]) -> tuple[CustomPlugin, ...]:
    """Return users' PostFilter plugins and kube-scheduler's own, in order; nothing if there are
    only the latter.
    """
    own = {one.name: one for one in _own(args, names)}
    if not own:
        return ()
    others = {name: CustomPlugin(name, "") for name in (DEFAULT_PREEMPTION, DYNAMIC_RESOURCES)}
    known = others | own
    return tuple(known[one] for one in names if one in known)


def _claims(names: tuple[str, ...]) -> str:
    """Return DynamicResources' place among the PostFilter plugins."""
    if DYNAMIC_RESOURCES not in names:
        return NOWHERE
    before = names[: names.index(DYNAMIC_RESOURCES)]
    return LAST if DEFAULT_PREEMPTION in before else FIRST


def _own(args: dict[str, str], names: tuple[str, ...]) -> tuple[CustomPlugin, ...]:
    """Return the users' plugins among these names."""
    user_plugins = PLUGINS
    return tuple(
        CustomPlugin(one, user_plugins[one].sha256, args=args[one])
        for one in names
        if one in user_plugins
    )


def _check_points(plugins: Fields, names: dict[str, tuple[str, ...]], profile: str) -> None:
    """Check the plugins that every profile needs."""
    if len(names[QUEUE_SORT]) != 1:
        raise plugins.error(
            QUEUE_SORT,
            f'only one queue sort plugin required for profile with scheduler name "{profile}", '
            f"but got {len(names[QUEUE_SORT])}",
        )
    if "DefaultBinder" not in names[BIND]:
        raise plugins.error(BIND, "a profile needs DefaultBinder")
    if names[BIND][-1] != "DefaultBinder":
        raise plugins.error(
            BIND,
            f"{names[BIND][-1]} would never be called: DefaultBinder, before it, binds all pods; "
            'disable "*" here and enable it before DefaultBinder',
        )
    if "SchedulingGates" not in names[PRE_ENQUEUE]:
        raise plugins.error(PRE_ENQUEUE, "a profile without SchedulingGates is not supported")
    if "NodeResourcesFit" not in names[FILTER]:
        raise plugins.error(
            FILTER,
            "a profile without NodeResourcesFit is not supported: nodes are never over-committed",
        )
    claims = (DYNAMIC_RESOURCES,)
    needs = (
        (FILTER, PRE_FILTER, (*NEEDS_PRE_FILTER, *claims)),
        *((point, PRE_FILTER, claims) for point in (SCORE, POST_FILTER)),
        (SCORE, PRE_SCORE, NEEDS_PRE_SCORE),
    )
    for point, before, needing in needs:
        for name in needing:
            if name in names[point] and name not in names[before]:
                raise plugins.error(before, f"{name} is not enabled, but its {point} needs it")
    for name in REJECTS:
        if (name in names[FILTER]) != (name in names[PRE_FILTER]):
            raise plugins.error(
                PRE_FILTER, f"{name} at one of {PRE_FILTER} and {FILTER} alone is not supported"
            )
    for point in AT_ALL:
        if ("VolumeBinding" in names[FILTER]) != ("VolumeBinding" in names[point]):
            raise plugins.error(
                point, f"VolumeBinding at one of {FILTER} and {point} alone is not supported"
            )
