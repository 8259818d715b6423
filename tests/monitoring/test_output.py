"""The exporter's output, checked by promtool."""

from __future__ import annotations

from allotment.components.metrics import text_of
from allotment.exporter.families import families
from allotment.fleet.catalog import catalog
from tests.monitoring.conftest import Promtool
from tests.unit.exporter.clusters import FEATURES, claim, fleet, pod, template


def test_promtool_accepts_the_output(promtool: Promtool) -> None:
    cluster = (
        *fleet("a=2xt4", "b=1xh100/shared", "c=1xa100-40gb/dynamic-mig"), template("many", count=3),
        claim("one", "gpu-0", allocated="2026-01-01T00:00:07Z"), pod("waits", template="many"),
        claim("share", "gpu-0", pool="b", shares={"memory": "10Gi"}),
    )  # fmt: skip
    text = text_of(families(cluster, FEATURES, catalog(), per_claim=True, max_series=9))
    assert "allotment_claim_allocation_seconds_bucket" in text
    checked = promtool("check", "metrics", text=text)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_promtool_rejects_invalid_output(promtool: Promtool) -> None:
    checked = promtool("check", "metrics", text="# TYPE allotment_wrong_total gauge\nallotment_wrong_total 1\n")
    assert checked.returncode != 0
