"""A story as a trace in OTLP's JSON: spans of services, with times and ids of the right form."""

import re
from typing import Any

from muster.cli.output import RecordText, time_of
from muster.explain.traces import trace_of
from shared.model.ids import BINDING, INGEST, QUEUEING, JournalName

NAME = "pod/web-1"
BEGAN_MS = 1_700_000_000_123


def line(ms: int, journal: JournalName, position: int, text: str) -> RecordText:
    return RecordText(time_of(BEGAN_MS + ms), journal, position, text)


STORY = (
    line(0, INGEST, 2, "default/web-1 seen"),
    line(0, INGEST, 2, "pending"),
    line(8, QUEUEING, 3, "sent to shard 0"),
    line(7, JournalName("placement/0"), 4, "reserved"),
    line(31, BINDING, 2, "bound"),
)


def spans_of(trace: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the spans by service and name."""
    found = {}
    for resource in trace["resourceSpans"]:
        (service,) = resource["resource"]["attributes"]
        assert service["key"] == "service.name"
        for span in resource["scopeSpans"][0]["spans"]:
            found[f"{service['value']['stringValue']}: {span['name']}"] = span
    return found


def test_each_record_is_a_span_of_its_service_below_one_for_the_story():
    spans = spans_of(trace_of(NAME, STORY))
    assert list(spans) == [
        f"muster: {NAME}",
        "muster-ingest: pending",
        "muster-queueing: sent to shard 0",
        "muster-placement: reserved",
        "muster-binding: bound",
    ]
    root, *others = spans.values()
    assert root["parentSpanId"] == ""
    assert {one["parentSpanId"] for one in others} == {root["spanId"]}
    assert {one["traceId"] for one in spans.values()} == {root["traceId"]}
    assert len({one["spanId"] for one in spans.values()}) == len(spans)
    assert re.fullmatch("[0-9a-f]{32}", root["traceId"])
    assert all(re.fullmatch("[0-9a-f]{16}", one["spanId"]) for one in spans.values())
    assert others[0]["events"] == [
        {"timeUnixNano": str(BEGAN_MS * 1_000_000), "name": "default/web-1 seen"}
    ]


def test_a_span_begins_with_the_record_before_it_and_never_ends_before_it_begins():
    times = [
        (int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
        for span in spans_of(trace_of(NAME, STORY)).values()
    ]
    since_began = [tuple(ns // 1_000_000 - BEGAN_MS for ns in pair) for pair in times]
    # Clocks of services differ: placement wrote its record a millisecond before queueing's.
    assert since_began == [(0, 31), (0, 0), (0, 8), (8, 8), (8, 31)]
    assert all(ns % 1_000_000 == 0 for pair in times for ns in pair)


def test_the_same_story_has_the_same_trace_and_another_has_another():
    assert trace_of(NAME, STORY) == trace_of(NAME, STORY)
    elsewhere = (line(0, INGEST, 2, "other/web-1 seen"), *STORY[1:])
    others = (trace_of("pod/web-2", STORY), trace_of(NAME, STORY[2:]), trace_of(NAME, elsewhere))
    ids = {
        next(iter(spans_of(one).values()))["traceId"] for one in (trace_of(NAME, STORY), *others)
    }
    assert len(ids) == 4


def test_a_story_that_was_cut_away_has_no_spans():
    assert trace_of(NAME, ()) == {"resourceSpans": []}
