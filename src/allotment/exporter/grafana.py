"""Dashboards as Grafana JSON: dashboard schema 39, for Grafana 10.4 and later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from allotment.exporter.panels import Dashboard, Kind, Panel, PanelRow, Variable
from allotment.exporter.queries import query
from allotment.model.trees import Tree

SCHEMA: Final = 39
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
#: Width of Grafana's grid in columns.
_COLUMNS: Final = 24


def document(dashboard: Dashboard) -> Tree:
    """Return the dashboard as JSON for import or provisioning."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["allotment", "kubernetes", "dra"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), *(_variable(variable) for variable in dashboard.variables)]},
        "annotations": {"list": []},
        "links": [
            {
                "title": "Allotment", "type": "dashboards", "tags": ["allotment"], "asDropdown": True, "icon": "",
                "includeVars": True, "keepTime": True, "targetBlank": False, "tooltip": "", "url": "",
            }
        ],
        "panels": list(_panels(dashboard.rows)),
    }  # fmt: skip


def _datasource() -> Tree:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0}


def _variable(variable: Variable) -> Tree:
    return {
        "name": variable.name,
        "label": variable.title,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": _values(variable), "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


def _values(variable: Variable) -> str:
    query(f"count by ({variable.name}) ({variable.metric})")  # such a metric has such a label
    return f"label_values({variable.metric}, {variable.name})"


def _panels(rows: Sequence[PanelRow]) -> Iterator[Tree]:
    number, top = 0, 0
    for row in rows:
        number += 1
        yield {
            "id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1},
        }  # fmt: skip
        top += 1
        left = high = 0
        for panel in row.panels:
            if left + panel.width > _COLUMNS:
                top, left, high = top + high, 0, 0
            number += 1
            yield _panel(panel, number, left, top)
            left, high = left + panel.width, max(high, panel.height)
        top += high


def _panel(panel: Panel, number: int, left: int, top: int) -> Tree:
    table = panel.kind == "table"
    instant = panel.kind in ("table", "stat", "bargauge")
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height},
        "targets": [
            {
                "refId": chr(ord("A") + position), "datasource": _DATASOURCE, "expr": query.expression,
                "legendFormat": query.legend or "__auto", "instant": instant, "range": not instant,
                "format": "table" if table else "time_series",
            }
            for position, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _OPTIONS[panel.kind],
        "transformations": _joined(panel) if table else [],
    }  # fmt: skip


def _joined(panel: Panel) -> list[Tree]:
    """Return the transformations that give a table one column per query, titled by its legend, and no time."""
    names = {f"Value #{chr(ord('A') + n)}": query.legend for n, query in enumerate(panel.queries)}
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": {"Time": True},
                "indexByName": {},
                "renameByName": names if len(names) > 1 else {"Value": panel.queries[0].legend},
            },
        },
    ]


def _defaults(panel: Panel) -> Tree:
    steps: list[Tree] = [{"color": "text" if panel.kind == "stat" else "green", "value": None}]
    if panel.limits is not None:
        first, second = panel.limits
        colours = ("green", "yellow", "red")
        steps = [
            {"color": colours[0], "value": None}, {"color": colours[1], "value": first},
            {"color": colours[2], "value": second},
        ]  # fmt: skip
    defaults: Tree = {
        "unit": panel.unit,
        "min": 0,
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
        "thresholds": {"mode": "absolute", "steps": steps},
        "custom": {},
    }
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if panel.stacked else 0, "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }  # fmt: skip
    if panel.kind == "bargauge":
        del defaults["custom"]
    return defaults


_REDUCED: Final = {"values": False, "calcs": ["lastNotNull"], "fields": ""}
_OPTIONS: Final[dict[Kind, Tree]] = {
    "stat": {
        "reduceOptions": _REDUCED, "orientation": "auto", "textMode": "auto", "colorMode": "value",
        "graphMode": "none", "justifyMode": "auto", "wideLayout": True, "showPercentChange": False,
    },
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "table": {
        "showHeader": True, "cellHeight": "sm",
        "footer": {"show": False, "reducer": ["sum"], "countRows": False},
    },
    "bargauge": {
        "reduceOptions": _REDUCED, "orientation": "horizontal", "displayMode": "basic", "valueMode": "color",
        "showUnfilled": True, "minVizWidth": 8, "minVizHeight": 16, "namePlacement": "auto", "sizing": "auto",
        "maxVizHeight": 300, "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
    },
}  # fmt: skip
