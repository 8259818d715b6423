"""The shipped dashboards are generated from the definitions, their queries parse, and Grafana knows their fields."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from allotment.cli.metrics import alert_files, dashboard_files
from allotment.exporter.dashboards import DASHBOARDS
from allotment.model.serialization import to_yaml
from tests.monitoring.conftest import ROOT, Promtool

SHIPPED = ROOT / "deploy" / "dashboards"
ALERTS = ROOT / "deploy" / "alerts"


def test_shipped_files_equal_the_generated_ones() -> None:
    """`allot metrics dashboards -d deploy/dashboards` and `allot metrics alerts -d deploy/alerts` regenerate them."""
    assert {path.name: path.read_text() for path in SHIPPED.iterdir()} == dashboard_files()
    assert {path.name: path.read_text() for path in ALERTS.iterdir()} == alert_files()


def test_prometheus_parses_every_query(promtool: Promtool, tmp_path: Path) -> None:
    queries = [query.expression for dashboard in DASHBOARDS.values() for query in dashboard.queries()]
    for placeholder, value in (("$__rate_interval", "5m"), ("$namespace", ".*"), ("$node", ".*")):
        queries = [text.replace(placeholder, value) for text in queries]
    assert not [text for text in queries if "$" in text]
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(queries)]
    file = tmp_path / "panels.yaml"
    file.write_text(to_yaml([{"groups": [{"name": "panels", "rules": rules}]}]))
    checked = promtool("check", "rules", "--lint-fatal", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_dashboard_names_and_panel_positions_are_unique() -> None:
    for text in dashboard_files().values():
        panels = json.loads(text)["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        taken: set[tuple[int, int]] = set()
        for panel in panels:
            at = panel["gridPos"]
            place = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not place & taken, panel["title"]
            assert max(x for x, _ in place) < 24
            taken |= place
    assert len({dashboard.uid for dashboard in DASHBOARDS.values()}) == len(DASHBOARDS)


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds a program that reads dashboards with Grafana's types."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go not found: Grafana's types cannot be built, and dashboards are not checked against them")
    built = tmp_path_factory.mktemp("grafana") / "grafana"
    created = subprocess.run(
        [go, "build", "-o", str(built), "."], cwd=Path(__file__).parent / "grafana", capture_output=True, check=False
    )
    if created.returncode:
        pytest.skip(f"Grafana's types cannot be built: {created.stderr.decode()[-500:]}")
    return built


def test_grafana_knows_every_field(schema: Path) -> None:
    checked = subprocess.run([schema, *SHIPPED.iterdir()], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("panels", 1, "options", "graphs"), "none"),
        (("panels", 1, "gridPos", "w"), 25),
        (("panels", 1, "targets", 0, "query"), "up"),
        (("templates",), []),
    ],
)
def test_grafana_rejects_unknown_fields(
    schema: Path, tmp_path: Path, path: tuple[str | int, ...], value: object
) -> None:
    tree = json.loads((SHIPPED / "allotment-overview.json").read_text())
    place = tree
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(tree))
    assert subprocess.run([schema, file], capture_output=True, check=False).returncode == 1
