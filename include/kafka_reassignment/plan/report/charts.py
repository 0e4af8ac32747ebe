"""The report's charts as Vega-Lite specifications. Their data are in the page once, shared by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_reassignment.plan.report.rows import Row

Spec = dict[str, Any]
"""A Vega-Lite specification, or a part of one (https://vega.github.io/vega-lite/docs/spec.html)."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""Names the version of the language; vega-embed compares it with its own and loads nothing."""

BEFORE, AFTER, OTHER = "#9aa7b5", "#2f7de1", "#e0803a"
"""Distinct on white and on black, and for colour-blind people."""

INK, GRID = "currentColor", "rgba(128, 128, 128, 0.25)"

MAX_LABELLED_BROKERS = 60
"""Up to this many brokers have their ids below them; of more, the tooltip has the id."""

MEASURES = (("bytes", "GB"), ("replicas", "replicas"), ("leaders", "preferred leaders"))

CONFIG: Spec = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": GRID,
        "tickColor": GRID,
        "gridColor": GRID,
        "titleFontWeight": "normal",
    },
    "legend": {"labelColor": INK, "titleColor": INK, "orient": "top"},
}
"""Ink of the page's own colour, so that charts follow its light or dark scheme."""


def charts(brokers: list[Row], batches: list[Row]) -> dict[str, Spec]:
    """Return each chart's specification by its name in the page.

    Args:
        brokers: ``broker_rows``; empty for a plan that undoes another, which looks at no broker.
        batches: ``batch_rows``.
    """
    labels = [str(row["label"]) for row in brokers]
    made: dict[str, Spec] = {}
    if brokers:
        made = {f"{name}_by_broker": _by_broker(name, title, labels) for name, title in MEASURES}
        made |= {f"{name}_by_rack": _by_rack(name, title) for name, title in MEASURES}
        made["flows"] = _flows(labels)
    if batches:
        made["batch_bytes"] = _by_batch("gb", "GB to copy", len(batches))
        made["batch_busiest"] = _by_batch("busiest_gb", "GB of the busiest broker", len(batches))
    return {name: {"$schema": SCHEMA, "config": CONFIG, "width": "container", **spec} for name, spec in made.items()}


def _by_broker(measure: str, title: str, brokers: Sequence[str]) -> Spec:
    """Before and after as points, joined by a line; for bytes, the band of the fair share behind them."""
    layers: list[Spec] = []
    if measure == "bytes":
        mark = {"type": "rule", "strokeWidth": max(1, 500 // len(brokers)), "opacity": 0.18, "color": AFTER}
        layers.append({"mark": mark, "encoding": {"y": _number("low", title), "y2": {"field": "high"}}})
    before, after = _number(f"{measure}_before", title), _number(f"{measure}_after", title)
    line = {"type": "rule", "opacity": 0.5, "color": BEFORE}
    layers.append({"mark": line, "encoding": {"y": before, "y2": {"field": f"{measure}_after"}}})
    for colour, filled, y in ((BEFORE, False, before), (AFTER, True, after)):
        mark = {"type": "point", "color": colour, "filled": filled, "opacity": 1, "size": _point_size(len(brokers))}
        layers.append({"mark": mark, "encoding": {"y": y}})
    return _over_brokers(brokers, layers, height=230)


def _flows(brokers: Sequence[str]) -> Spec:
    title = "GB received (up), sent (down)"
    received = {"mark": {"type": "bar", "color": AFTER}, "encoding": {"y": _number("received", title)}}
    sent = {
        "transform": [{"calculate": "-datum.sent", "as": "down"}],
        "mark": {"type": "bar", "color": OTHER},
        "encoding": {"y": _number("down", title)},
    }
    return _over_brokers(brokers, [received, sent], height=200)


def _over_brokers(brokers: Sequence[str], layers: list[Spec], *, height: int) -> Spec:
    labelled = len(brokers) <= MAX_LABELLED_BROKERS
    axis = {"labels": labelled, "ticks": labelled, "labelAngle": 0, "title": "brokers, rack by rack", "grid": False}
    tooltip = [
        _tooltip("broker", kind="nominal"),
        _tooltip("rack", kind="nominal"),
        _tooltip("bytes_before", ",.2f", "GB before"),
        _tooltip("bytes_after", ",.2f", "GB after"),
        _tooltip("share", ",.2f", "fair share, GB"),
        _tooltip("replicas_before", ",d", "replicas before"),
        _tooltip("replicas_after", ",d", "replicas after"),
        _tooltip("leaders_before", ",d", "leaders before"),
        _tooltip("leaders_after", ",d", "leaders after"),
        _tooltip("received", ",.2f", "GB received"),
        _tooltip("sent", ",.2f", "GB sent"),
    ]
    x = {"field": "label", "type": "nominal", "scale": {"domain": list(brokers)}, "axis": axis}
    return {
        "data": {"name": "brokers"},
        "height": height,
        "encoding": {"x": x, "tooltip": tooltip},
        "layer": layers,
    }


def _by_rack(measure: str, title: str) -> Spec:
    when = ["before", "after"]
    return {
        "data": {"name": "racks"},
        "height": 190,
        "mark": "bar",
        "encoding": {
            "x": {"field": "rack", "type": "nominal", "axis": {"title": None, "labelAngle": 0, "labelLimit": 70}},
            "xOffset": {"field": "when", "type": "nominal", "sort": when},
            "y": _number(measure, title),
            "color": {
                "field": "when",
                "type": "nominal",
                "scale": {"domain": when, "range": [BEFORE, AFTER]},
                "legend": {"title": None},
            },
            "tooltip": [
                _tooltip("rack", kind="nominal"),
                _tooltip("when", kind="nominal"),
                _tooltip("brokers"),
                _tooltip(measure, ",.2f"),
            ],
        },
    }


def _by_batch(field: str, title: str, batches: int) -> Spec:
    return {
        "data": {"name": "batches"},
        "height": 170,
        "mark": {"type": "point", "filled": True, "color": AFTER, "opacity": 0.8, "size": _point_size(batches)},
        "encoding": {
            "x": {
                "field": "batch",
                "type": "quantitative",
                "axis": {"title": "batch", "tickMinStep": 1, "grid": False},
            },
            "y": _number(field, title),
            "tooltip": [
                _tooltip("batch"),
                _tooltip("steps"),
                _tooltip("gb", ",.3f", "GB to copy"),
                _tooltip("busiest_gb", ",.3f", "GB of the busiest broker"),
            ],
        },
    }


def _number(field: str, title: str) -> Spec:
    return {"field": field, "type": "quantitative", "axis": {"title": title}}


def _tooltip(
    field: str, number_format: str | None = None, title: str | None = None, kind: str = "quantitative"
) -> Spec:
    more = {"format": number_format, "title": title}
    return {"field": field, "type": kind, **{key: value for key, value in more.items() if value is not None}}


def _point_size(points: int) -> int:
    return max(8, min(90, 9000 // max(points, 1)))
