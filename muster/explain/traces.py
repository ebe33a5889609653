"""Traces in OpenTelemetry's JSON (OTLP 1.x, `ExportTraceServiceRequest`), made from a story.

A collector takes them by HTTP (`/v1/traces`) or from a file. They come from the journals, so a
running mesh spends nothing on them.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any

from muster.cli.output import RecordText
from shared.model.ids import service_of

INTERNAL = 1  # SpanKind


def trace_of(name: str, lines: Sequence[RecordText]) -> dict[str, Any]:
    """Return the trace of KIND/NAME: a span for the whole story, and one below it for each record.
    That begins when the record before it was written, so its length is the time that
    its service took, with the way to it. The record's last line is its name, the others are its
    events. The ids are hashes of name, journal and position: the same story has the same trace.
    A story without lines has no spans.
    """
    if not lines:
        return {"resourceSpans": []}
    trace = _hash(name, lines[0].time.isoformat(), lines[0].text)[:32]
    root = trace[:16]
    spans = [_span(trace, root, "", name, _ns(lines[0]), _ns(lines[-1]))]
    by_service: dict[str, list[dict[str, Any]]] = {"muster": spans}
    before_ns = _ns(lines[0])
    for (journal, position), found in groupby(lines, lambda line: (line.journal, line.position)):
        *others, last = found
        now_ns = max(before_ns, _ns(last))
        span = _span(
            trace, _hash(trace, journal, str(position))[:16], root, last.text, before_ns, now_ns
        )
        span["attributes"] = _attributes({"muster.journal": journal, "muster.position": position})
        span["events"] = [{"timeUnixNano": str(_ns(one)), "name": one.text} for one in others]
        by_service.setdefault(f"muster-{service_of(journal)}", []).append(span)
        before_ns = now_ns
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes({"service.name": service})},
                "scopeSpans": [{"scope": {"name": "muster.story"}, "spans": spans}],
            }
            for service, spans in by_service.items()
        ]
    }


def _span(
    trace: str, span: str, parent: str, name: str, begin_ns: int, end_ns: int
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": span,
        "parentSpanId": parent,
        "name": name,
        "kind": INTERNAL,
        "startTimeUnixNano": str(begin_ns),
        "endTimeUnixNano": str(end_ns),
    }


def _attributes(values: Mapping[str, str | int]) -> list[dict[str, Any]]:
    """Return attributes in OTLP's form, where integers are strings."""
    return [
        {
            "key": key,
            "value": {"intValue": str(one)} if isinstance(one, int) else {"stringValue": one},
        }
        for key, one in values.items()
    ]


def _ns(line: RecordText) -> int:
    """Return a record's time in ns since 1970, exact to the ms that it was written with."""
    return round(line.time.timestamp() * 1000) * 1_000_000


def _hash(*parts: str) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()
