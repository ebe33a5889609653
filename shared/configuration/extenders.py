"""The `extenders` of a KubeSchedulerConfiguration, validated as kube-scheduler validates them."""

import math
from collections.abc import Iterator
from urllib.parse import urlsplit

from shared.configuration.plugin_args import duration_ms
from shared.extenders.client import tls_context
from shared.extenders.values import Extender, Tls
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.labels import is_label_name
from shared.model.objects import GPU

FIELDS = (
    *("urlPrefix", "filterVerb", "preemptVerb", "prioritizeVerb", "weight", "bindVerb"),
    *("enableHTTPS", "tlsConfig", "httpTimeout", "nodeCacheCapable", "managedResources"),
    "ignorable",
)
TLS_FIELDS = (
    *("insecure", "serverName", "certFile", "keyFile", "caFile"),
    *("certData", "keyData", "caData"),
)
INT64_MAX = (1 << 63) - 1
TIMEOUT_MS = 5_000.0
UNLIMITED_MS = 86_400_000
"""Used for a timeout below 0, which means none in kube-scheduler: here no call waits for ever."""


def extenders_of(fields: Fields) -> tuple[tuple[Extender, ...], tuple[str, ...]]:
    """Return the extenders in call order, ignorable ones last; and the resources that only they
    check. Raises WorldError.
    """
    found: list[Extender] = []
    ignored: list[str] = []
    managed: set[str] = set()
    for one in fields.children("extenders"):
        one.only(FIELDS)
        if one.text("bindVerb") and any(other.bind_verb for other in found):
            raise one.error("bindVerb", "only one extender can implement bind")
        names = dict(_managed(one, managed))
        ignored += [name for name, is_ignored in names.items() if is_ignored]
        found.append(_extender(one, tuple(sorted(names))))
    return tuple(sorted(found, key=lambda one: one.ignorable)), tuple(ignored)


def _managed(fields: Fields, managed: set[str]) -> Iterator[tuple[str, bool]]:
    for one in fields.children("managedResources"):
        one.only(("name", "ignoredByScheduler"))
        name = one.text("name")
        is_extended = "/" in name and "kubernetes.io/" not in name
        if not is_label_name(name) or not is_extended or name.startswith("requests."):
            raise one.error("name", f"{shown(name)} is an invalid extended resource name")
        if name in managed:
            raise one.error("name", f"{shown(name)} is a duplicate extended managed resource name")
        if one.flag("ignoredByScheduler") and name == GPU:
            raise one.error("name", f"{GPU} is not supported: devices are given")
        managed.add(name)
        yield name, one.flag("ignoredByScheduler")


def _extender(fields: Fields, managed: tuple[str, ...]) -> Extender:
    filters, scores = fields.text("filterVerb"), fields.text("prioritizeVerb")
    binds, preempts = fields.text("bindVerb"), fields.text("preemptVerb")
    if not (filters or scores or binds or preempts):
        raise fields.error("", "without any verb is not supported")
    weight = fields.integer("weight", 0, -INT64_MAX, INT64_MAX)
    if scores and weight <= 0:
        raise fields.error("weight", "must have a positive weight applied to it")
    timeout_ms = math.ceil(duration_ms(fields, "httpTimeout", TIMEOUT_MS) or TIMEOUT_MS)
    return Extender(
        url=_url(fields),
        filter_verb=filters,
        prioritize_verb=scores,
        bind_verb=binds,
        preempt_verb=preempts,
        weight=weight,
        timeout_ms=timeout_ms if timeout_ms > 0 else UNLIMITED_MS,
        knows_nodes=fields.flag("nodeCacheCapable"),
        managed_resources=managed,
        ignorable=fields.flag("ignorable"),
        tls=_tls(fields),
    )


def _url(fields: Fields) -> str:
    url = fields.required_text("urlPrefix")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise fields.error("urlPrefix", f"{shown(url)} is not a URL with http:// or https://")
    return url


def _tls(fields: Fields) -> Tls:
    tls = fields.child("tlsConfig")
    tls.only(TLS_FIELDS)
    for key in ("certData", "keyData"):
        if tls.data(key):
            raise tls.error(key, "is not supported: name a file")
    authorities, file = _pem(tls, "caData"), tls.text("caFile")
    insecure, https = tls.flag("insecure"), fields.flag("enableHTTPS")
    has_any = bool(authorities or file)
    if insecure and has_any:
        raise tls.error("insecure", "is not allowed together with a root certificate")
    if bool(tls.text("certFile")) != bool(tls.text("keyFile")):
        raise tls.error("certFile", "one of certFile and keyFile alone is not supported")
    found = Tls(
        insecure=insecure or (https and not has_any),
        server_name=tls.text("serverName"),
        authorities_file="" if authorities else file,
        authorities=authorities,
        certificate_file=tls.text("certFile"),
        key_file=tls.text("keyFile"),
    )
    if has_any or found.certificate_file:
        try:
            tls_context(found)
        except OSError as error:
            raise tls.error("", f"cannot be used: {error}") from error
    return found


def _pem(tls: Fields, key: str) -> str:
    try:
        return tls.data(key).decode("ascii")
    except UnicodeDecodeError as error:
        raise tls.error(key, "is not PEM in base64") from error
