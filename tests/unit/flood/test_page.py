"""The page of a flood needs no network, and two floods are compared figure by figure."""

import json
import re

import msgspec
import pytest

from muster.cli.errors import UsageFault
from muster.flood.book import Book, Sample, Seen
from muster.flood.compare import Compared, compared, figures_of, read_summary
from muster.flood.figures import About, summarise
from muster.flood.journals import Told
from muster.flood.page import page
from muster.flood.plan import plan_of
from muster.flood.summary import FloodSummary
from muster.flood.workload import Arrivals, CreatePods, Template, Workload
from shared.model.objects import PodSpec

HOSTILE = "<img src=http://a.example/x>"
LINES = [
    *("bound, pods/s", "latency from when a pod was to come, ms by percentile", "pods that wait"),
    *("pods in a batch", "processors in use", "writes to the API, 1/s"),
    *("placed by each shard, pods/s", "pods of each shard"),
]


def flood(binds_ms: float = 20.0, name: str = "w") -> FloodSummary:
    """Return the summary of ten pods, one every 100 ms, bound so much later each."""
    template = Template("a", PodSpec(), (), False, False, {})
    step = CreatePods(10, ((template, 1),), "default", Arrivals("even", 10.0))
    book = Book(plan_of(Workload(name, 1, (step,))))
    for number in range(10):
        book.come([number], 100.0 * number)
    book.take(Seen(range(10), [100.0 * number + binds_ms for number in range(10)]))
    book.samples = [Sample(0.0, 0.0, 0), Sample(1_000.0 + binds_ms, 0.5, 20)]
    told = Told([(0, 4), (500, 6)], [[(0, 4)], [(500, 6)]])
    return summarise(book, About(1, "in-process", "muster", "", 2, 0), told, True)


def said(html: str) -> str:
    """Return the page with what its JSON escapes."""
    return html.replace("\\u002f", "/").replace("\\u0026", "&")


def test_a_page_has_all_plots_and_asks_no_server_for_anything():
    found = page({"first": flood(), "second": flood(40.0)})
    assert [title for title in LINES if json.dumps(title) not in said(found)] == []
    assert '"name":"first"' in found
    assert '"name":"second"' in found
    assert not re.findall(r"<(?:script|img|iframe)[^>]* src=.?http|<link|@import", found)
    assert len(found) > 1_000_000, "the library is in the page"


def test_names_are_text_and_no_markup():
    found = page({HOSTILE: flood(name=HOSTILE)})
    assert HOSTILE not in found
    assert "\\u003cimg" not in found, "nor in the text of a plot"
    assert "img src=http://a.example/x&gt;" in said(found)


def test_two_floods_are_compared_figure_by_figure():
    found = {one.figure: one for one in compared(figures_of(flood(20.0)), figures_of(flood(40.0)))}
    assert found["bound"] == Compared("bound", 10, 10, 1.0)
    assert found["latency_ms.p50"].ratio == pytest.approx(2.0, rel=0.01)
    assert found["waiting"] == Compared("waiting", 0, 0, None)
    assert found["api_writes_per_pod"].first == 2
    assert found["shard_imbalance"].first == 1.2


def test_what_is_no_summary_is_refused_by_name(tmp_path):
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(msgspec.json.encode(flood()))
    assert read_summary(good, FloodSummary, "flood") == flood()
    bad.write_text("{}")
    with pytest.raises(UsageFault, match=r"bad.json: is no summary of a flood: .*workload"):
        read_summary(bad, FloodSummary, "flood")
    with pytest.raises(UsageFault, match=r"none.json: cannot be read: No such file"):
        read_summary(tmp_path / "none.json", FloodSummary, "flood")
