"""The plot of the ratios to orjson, one panel for each row of the README's table."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from . import peers
from .summary import PANELS, digest

LEFT_OUT: Final = {
    peers.CORE_PARSE,
    peers.CORE_LINES,
    peers.CORE_MESSAGE,
    peers.ORJSON_READY,
    peers.MSGSPEC_UNTRACKED,
    peers.JITER,
}
"""Variants that only the tables contain."""
COLOURS: Final = {
    **dict.fromkeys((peers.CORE, peers.CORE_RAW, peers.CORE_PARSE_TEXT), "#1d5fd1"),
    peers.PURE: "#7aa7ee",
}


def plot(figures: dict[str, Any], output: Path) -> None:
    """Draw the ratios to orjson alone for the payloads in `PANELS`."""
    panels = []
    for work, payload, title in PANELS:
        found = figures["nanoseconds"][work][payload]
        ratios = {name: time / found[peers.ORJSON] for name, time in found.items() if name not in LEFT_OUT}
        panels.append((f"{title} ({figures['sizes'][payload]})", ratios))
    columns = 2
    # All bars have the same thickness, however many a panel has.
    slots = [max(len(ratios) for _, ratios in panels[at : at + columns]) for at in range(0, len(panels), columns)]
    figure = Figure(figsize=(13, 0.33 * sum(slots) + 3.4), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.12))
    grid = figure.subplots(len(slots), columns, sharex=True, gridspec_kw={"height_ratios": slots})
    for place, (title, ratios) in enumerate(panels):
        _draw_panel(grid.flat[place], title, ratios, slots[place // columns])
    everything = [ratio for _, ratios in panels for ratio in ratios.values()]
    # Leave room for the numbers next to the bars.
    grid.flat[0].set_xlim(min(everything) / 2.5, max(everything) * 2)
    figure.suptitle("Time taken, as a multiple of what orjson alone takes (left of the line is faster)", fontsize=15)
    # A name and its version stay on one line.
    facts = [f"{name} {value}".replace(" ", "\N{NO-BREAK SPACE}") for name, value in figures["facts"].items()]
    note = "Logarithmic scale. Blue is this codec, pale blue its pure-Python backend. orjson and json validate nothing."
    figure.supxlabel("\n".join([note, *textwrap.wrap(", ".join(facts), 150)]), fontsize=8.5)
    # The same figures always give the same file.
    with mpl.rc_context({"svg.hashsalt": "ratios", "svg.fonttype": "none"}):
        figure.savefig(
            output, metadata={"Date": None, "Description": digest(figures)} if output.suffix == ".svg" else None
        )


def _draw_panel(axes: Axes, title: str, ratios: dict[str, float], slots: int) -> None:
    names = sorted(ratios, key=ratios.__getitem__)
    for place, name in enumerate(names):
        ratio = ratios[name]
        # Bars start at 1: a logarithmic scale has no zero.
        axes.barh(place, ratio - 1, left=1, color=COLOURS.get(name, "#b4bac4"), height=0.7)
        axes.annotate(
            f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}",
            (ratio, place),
            xytext=(-4 if ratio < 1 else 4, 0),
            textcoords="offset points",
            horizontalalignment="right" if ratio < 1 else "left",
            verticalalignment="center",
            fontsize=9,
        )
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_yticks(range(len(names)), names, fontsize=9.5)
    for label in axes.get_yticklabels():
        label.set_color("#1d5fd1" if label.get_text() in COLOURS else "#333333")
    axes.set_ylim(slots - 0.5, -0.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=True, labelsize=8.5)
    axes.grid(axis="x", color="#e3e6ea", linewidth=0.8)
    axes.set_axisbelow(True)
