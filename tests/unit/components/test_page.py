"""The page on components lists exactly the existing metrics, kinds of work and flags."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from allotment.cli.main import main
from allotment.cluster.instrumentation import Instrumentation, WorkRecord
from allotment.components.metrics import Metrics
from allotment.exporter.definitions import UNREAD
from allotment.exporter.metric import Family, Sample

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "components.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables under a heading."""
    part = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:2] == "| "]


def test_documented_metrics_equal_the_served_ones() -> None:
    observing = Instrumentation()
    metrics = Metrics("scheduler", observing, tuple)
    metrics.add_leader_gauge("allotment-scheduler", lambda: True)
    observing.gauge("queue", "a", lambda: 0)
    observing.record(WorkRecord("run", "a", 0, 0, "crashed", {}))
    observing.record(WorkRecord("bind", "a", 0, 0, "bound", {}))
    metrics.record_request("GET", 200, 0)
    metrics.add_families(lambda: (Family(UNREAD, [Sample(("podgroups", "not-served"), 1)]),))
    asyncio.run(metrics.update())
    served = {}
    for family in text_string_to_metric_families(metrics.exposition()[0].decode()):
        if family.name.startswith("allotment_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            served[name] = {label for sample in family.samples for label in sample.labels} - {"le"}
    documented = {
        row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in rows("Metrics") if "allotment_" in row[0]
    }
    assert documented == served


def test_documented_work_names_equal_the_reported_ones() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py") if "tools" not in path.parts)
    reported = set(re.findall(r'observing\.work\("(\w+)"', source))
    assert 'observing.work(f"sync_{key.kind}"' in source
    reported |= {"sync_pod", "sync_claim", "sync_group"}
    assert {word for row in rows("Metrics") if len(row) == 3 for word in re.findall(r"`(\w+)`", row[0])
            if word != "work" and not word.startswith("allotment_")} == reported  # fmt: skip


def test_documented_flags_equal_those_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "claims", "--help"])
    available = set(re.findall(r"^ +(?:-v, )?(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help"}
    documented = {flag for row in rows("Common flags") for flag in re.findall(r"--[a-z-]*[a-z]", row[0])}
    cluster = {"--context", "--kubeconfig", "--kube-version", "--feature-gates"}
    assert documented | cluster == available
    assert all(f"`{flag}" in PAGE for flag in cluster)


def test_documented_components_equal_those_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    listed = capsys.readouterr().out.split("\ncomponents:\n")[1]
    available = set(re.findall(r"^    ([a-z]+)\b", listed, re.MULTILINE))
    table = PAGE.split("|---|---|---|\n", 1)[1].split("\n\n", 1)[0]
    assert {
        word.split()[0] for row in table.splitlines() for word in re.findall(r"`([^`]+)`", row.split("|")[1])
    } == available
