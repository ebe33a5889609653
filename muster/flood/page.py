"""One HTML page with the plots of floods; it opens without a network."""

import importlib.util
from collections.abc import Sequence
from html import escape
from itertools import cycle
from typing import TYPE_CHECKING, Any

from muster.cli.errors import UsageFault
from muster.flood.summary import FloodSummary
from muster.flood.text import rows

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

COLOURS = ("#2563eb", "#ea580c", "#16a34a", "#9333ea")
PERCENTILES = (0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
SHOWN = (0, 50, 90, 99, 99.9, 99.99)
TITLES = (
    "",
    "bound, pods/s",
    "latency from when a pod was to come, ms by percentile",
    "pods that wait",
    "pods in a batch",
    "processors in use",
    "writes to the API, 1/s",
    "placed by each shard, pods/s",
    "pods of each shard",
)
HEIGHT = 2_000
TABLE_SHARE, PLOT_SHARE = 0.28, 0.18


def require_plots() -> None:
    """Raise UsageFault where the library for plots is not installed."""
    if importlib.util.find_spec("plotly") is None:
        command = "python -m pip install --require-hashes -r requirements/plots.txt"
        raise UsageFault(f"--html: needs plotly: {command}")


def page(floods: dict[str, FloodSummary]) -> str:
    """Return the page of one flood, or of several by the names that their lines have."""
    return html_of(_figure(floods))


def html_of(figure: "Figure") -> str:
    """Return a page that opens without a network."""
    found: str = figure.to_html(
        include_plotlyjs=True, full_html=True, config={"displaylogo": False, "responsive": True}
    )
    return found


def _figure(floods: dict[str, FloodSummary]) -> "Figure":
    from plotly.subplots import make_subplots

    plots = make_subplots(
        rows=5,
        cols=2,
        specs=[[{"type": "table", "colspan": 2}, None], *[[{}, {}] for _ in range(4)]],
        row_heights=[TABLE_SHARE, *[PLOT_SHARE] * 4],
        vertical_spacing=0.06,
        subplot_titles=TITLES,
    )
    plots.add_trace(table_of({name: rows(flood) for name, flood in floods.items()}), 1, 1)
    for (name, flood), colour in zip(floods.items(), cycle(COLOURS), strict=False):
        _Lines(plots, flood, colour, Legend(escape(name))).draw()
    ticks = [_place(percent) for percent in SHOWN]
    texts = [f"p{percent:g}" for percent in SHOWN]
    plots.update_xaxes(row=2, col=2, type="log", tickvals=ticks, ticktext=texts)
    plots.update_yaxes(rangemode="tozero")
    plots.update_yaxes(row=2, col=2, type="log", dtick=1)
    for row, col in ((2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (5, 1)):
        plots.update_xaxes(row=row, col=col, title_text="seconds")
    names = " and ".join(dict.fromkeys(flood.workload for flood in floods.values()))
    plots.update_layout(
        title_text=f"muster flood: {escape(names)}", height=HEIGHT, template="plotly_white"
    )
    return plots


def table_of(columns: dict[str, list[tuple[str, str]]]) -> Any:
    """Return a table with a column of (title, value) for each name."""
    from plotly.graph_objects import Table

    found = [dict(column) for column in columns.values()]
    titles = list(dict.fromkeys(title for column in found for title in column))
    values = [[escape(column.get(title, "")) for title in titles] for column in found]
    return Table(
        header={"values": ["", *map(escape, columns)], "align": "left"},
        cells={"values": [list(map(escape, titles)), *values], "align": "left"},
        columnwidth=[1, *[4] * len(values)],
    )


class Legend:
    """Joins all lines of one name: the legend shows or hides them together."""

    def __init__(self, name: str) -> None:
        """The first line that asks is in the legend."""
        self._name, self._is_named = name, False

    def __call__(self) -> dict[str, Any]:
        """Return what joins a line to the others."""
        is_first, self._is_named = not self._is_named, True
        return {"name": self._name, "legendgroup": self._name, "showlegend": is_first}


class _Lines:
    """The lines of one flood, in one colour."""

    def __init__(self, plots: "Figure", flood: FloodSummary, colour: str, legend: Legend) -> None:
        self._plots, self._flood, self._colour, self._legend = plots, flood, colour, legend
        self._a_second = 1000 / flood.series.interval_ms

    def draw(self) -> None:
        series, a_second = self._flood.series, self._a_second
        self._over_time(2, 1, [count * a_second for count in series.bound])
        self._latencies()
        self._over_time(3, 1, series.waiting)
        self._over_time(3, 2, [pods or None for pods in series.batch_pods], mode="markers")
        self._over_time(4, 1, series.processors)
        self._over_time(4, 2, [count * a_second for count in series.api_writes])
        for pods in series.shard_pods:
            self._over_time(5, 1, [count * a_second for count in pods])
        totals = [sum(pods) for pods in series.shard_pods]
        names = [f"shard {shard}" for shard in range(len(totals))]
        self._plots.add_bar(
            x=names, y=totals, row=5, col=2, marker_color=self._colour, **self._legend()
        )

    def _over_time(
        self, row: int, col: int, values: Sequence[float | None], mode: str = "lines"
    ) -> None:
        seconds = [place / self._a_second for place in range(len(values))]
        self._scatter(row, col, seconds, values, mode)

    def _latencies(self) -> None:
        from hdrh.histogram import HdrHistogram

        if self._flood.latency_ms is not None:
            histogram = HdrHistogram.decode(self._flood.latency_histogram)
            found = [histogram.get_value_at_percentile(one) / 1000 for one in PERCENTILES]
            self._scatter(2, 2, [_place(one) for one in PERCENTILES], found, "lines+markers")

    def _scatter(
        self, row: int, col: int, x: Sequence[float], y: Sequence[float | None], mode: str
    ) -> None:
        style = {"line": {"color": self._colour, "width": 1.5}, "marker": {"size": 4}}
        self._plots.add_scatter(x=x, y=y, row=row, col=col, mode=mode, **style, **self._legend())


def _place(percent: float) -> float:
    """Return where a percentile is: each nine takes as much room as the one before."""
    return 100 / (100 - percent)
