"""One HTML page with the plots of mixes; it opens without a network."""

from collections.abc import Sequence
from html import escape
from itertools import cycle
from typing import TYPE_CHECKING, Any

from muster.flood.page import COLOURS, Legend, html_of, table_of
from muster.mix.summary import MixSummary, SizeFigures
from muster.mix.text import rows

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TITLES = (
    "",
    "GPUs in use, %",
    "CPUs in use, %",
    "pods that wait, by class",
    "free GPUs on partly used nodes, %",
    "mean wait by class and size, s",
    "mean completion by class and size, s",
    "lost GPU hours by class",
    "pods lost by class: evicted, and with their nodes",
)
HEIGHT = 1_800
TABLE_SHARE, PLOT_SHARE = 0.2, 0.2
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
PERCENT = 100
HOUR_S = 3_600


def page(mixes: dict[str, MixSummary]) -> str:
    """Return the page of one mix, or of several by the names that their lines have."""
    return html_of(_figure(mixes))


def _figure(mixes: dict[str, MixSummary]) -> "Figure":
    from plotly.subplots import make_subplots

    plots = make_subplots(
        rows=5,
        cols=2,
        specs=[[{"type": "table", "colspan": 2}, None], *[[{}, {}] for _ in range(4)]],
        row_heights=[TABLE_SHARE, *[PLOT_SHARE] * 4],
        vertical_spacing=0.06,
        subplot_titles=TITLES,
    )
    plots.add_trace(table_of({name: rows(mix) for name, mix in mixes.items()}), 1, 1)
    for (name, mix), colour in zip(mixes.items(), cycle(COLOURS), strict=False):
        _Lines(plots, mix, colour, Legend(escape(name))).draw()
    plots.update_yaxes(rangemode="tozero")
    for row, col in ((2, 1), (2, 2), (3, 1), (3, 2)):
        plots.update_xaxes(row=row, col=col, title_text="hours")
    names = " and ".join(dict.fromkeys(mix.mix for mix in mixes.values()))
    plots.update_layout(
        title_text=f"muster simulate: {escape(names)}", height=HEIGHT, template="plotly_white"
    )
    return plots


class _Lines:
    """The lines and bars of one mix, in one colour."""

    def __init__(self, plots: "Figure", mix: MixSummary, colour: str, legend: Legend) -> None:
        self._plots, self._mix, self._colour, self._legend = plots, mix, colour, legend

    def draw(self) -> None:
        mix, series = self._mix, self._mix.series
        self._over_time(2, 1, [PERCENT * share for share in series.used["gpu"]])
        self._over_time(2, 2, [PERCENT * share for share in series.used["cpu"]])
        for (name, pods), dash in zip(series.waiting.items(), cycle(DASHES), strict=False):
            self._over_time(3, 1, pods, dash, name)
        self._over_time(3, 2, [PERCENT * share for share in series.fragmentation])
        sizes = [(f"{one.name} {size.size}", size) for one in mix.classes for size in one.sizes]
        self._bars(4, 1, {escape(name): _mean(size, "wait_s") for name, size in sizes})
        self._bars(4, 2, {escape(name): _mean(size, "completion_s") for name, size in sizes})
        self._bars(5, 1, {escape(one.name): one.lost_gpu_hours for one in mix.classes})
        self._bars(5, 2, {escape(one.name): one.evicted + one.failed for one in mix.classes})

    def _over_time(
        self, row: int, col: int, values: Sequence[float], dash: str = "solid", name: str = ""
    ) -> None:
        hours = [place * self._mix.series.interval_s / HOUR_S for place in range(len(values))]
        line = {"color": self._colour, "width": 1.5, "dash": dash}
        more = _named(escape(name), values) if name else {"mode": "lines"}
        self._plots.add_scatter(
            x=hours, y=values, row=row, col=col, line=line, **more, **self._legend()
        )

    def _bars(self, row: int, col: int, values: dict[str, float | None]) -> None:
        self._plots.add_bar(
            x=list(values),
            y=list(values.values()),
            row=row,
            col=col,
            marker_color=self._colour,
            **self._legend(),
        )


def _named(name: str, values: Sequence[float]) -> dict[str, Any]:
    """Return what shows a line's name at its peak, and with each value."""
    texts = [""] * len(values)
    if any(values):
        texts[values.index(max(values))] = name
    hover = {"hovertext": name, "hovertemplate": "%{y} %{hovertext}"}
    return {"mode": "lines+text", "text": texts, "textposition": "top center", **hover}


def _mean(size: SizeFigures, name: str) -> float | None:
    times = getattr(size, name)
    return None if times is None else times.mean
