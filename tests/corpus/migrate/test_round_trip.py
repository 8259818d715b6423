"""A simulated migration of each workload of the corpus uses the same kinds of device as before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.run import migrate
from allotment.tools.migrate.simulation.comparison import Comparison, compare
from tests.corpus.migrate.test_migrate_corpus import HERE, WORKLOADS, header_value, migrated


def on_its_fleet(name: str) -> Migration | None:
    """A workload of the corpus migrated to its hardware, with the fleet description of this hardware."""
    path = HERE / "before" / f"{name}.yaml"
    fleet = header_value(path.read_text(), "fleet")
    migration = migrated(name)
    target = replace(migration.target, fleet=(fleet,)) if fleet else migration.target
    return migrate(migration.before, target) if fleet else None


TRIED = [name for name in WORKLOADS if header_value(Path(HERE / "before" / f"{name}.yaml").read_text(), "fleet")]


def compared(name: str) -> Comparison:
    migration = on_its_fleet(name)
    assert migration is not None
    trial = compare(migration)
    assert trial is not None
    return trial


@pytest.mark.parametrize("name", TRIED)
def test_every_pod_gets_the_same_kinds_of_device(name: str) -> None:
    for workload in compared(name).workloads:
        assert workload.untried == ""
        assert (workload.reason_before, workload.reason) == ("", "")
        assert workload.pods == workload.fitted == workload.fit > 0
        assert workload.changed == workload.lost == ()
        assert workload.before
        assert all(got.kind.product for devices in (*workload.before, *workload.after) for got in devices)


def test_the_tried_workloads_cover_every_kind() -> None:
    migrations = [migration for name in TRIED if (migration := on_its_fleet(name)) is not None]
    workloads = [workload for migration in migrations for workload in migration.workloads]
    requests = [
        request for workload in workloads for container in workload.containers for request in container.requests
    ]
    assert len(workloads) >= 12
    assert {workload.decision.outcome for workload in workloads} == {"template", "claim", "class", "cannot"}
    assert {request.usage for request in requests} >= {"whole", "piece", "share", "fraction"}
    assert {request.vendor for request in requests} >= {"nvidia", "amd"}
    assert max(request.count for request in requests) == 8
    kinds = {"Pod", "Job", "CronJob", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"}
    assert {workload.kind for workload in workloads} >= kinds
    assert any(label.expression for workload in workloads for label in workload.labels)


def test_workloads_that_keep_the_device_plugin_keep_its_nodes() -> None:
    assert compared("too-many-shares").kept == {"t4-4x-pcie-1": ("Deployment default/crowd",)}
    assert compared("product-selector").kept == {}
