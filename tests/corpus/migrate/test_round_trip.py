"""There and, in simulation, back on the same kinds of device: each workload of the corpus before and after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from allotment.tools.migrate.report import Migration
from allotment.tools.migrate.run import migrate
from allotment.tools.migrate.simulation.comparison import Comparison, compare
from tests.corpus.migrate.test_migrate_corpus import HERE, WORKLOADS, migrated, said


def on_its_fleet(name: str) -> Migration | None:
    """A workload of the corpus migrated to its hardware, in the words that the hardware is given in."""
    path = HERE / "before" / f"{name}.yaml"
    fleet = said(path.read_text(), "fleet")
    migration = migrated(name)
    target = replace(migration.target, fleet=(fleet,)) if fleet else migration.target
    return migrate(migration.before, target) if fleet else None


TRIED = [name for name in WORKLOADS if said(Path(HERE / "before" / f"{name}.yaml").read_text(), "fleet")]


def compared(name: str) -> Comparison:
    migration = on_its_fleet(name)
    assert migration is not None
    trial = compare(migration)
    assert trial is not None
    return trial


@pytest.mark.parametrize("name", TRIED)
def test_every_pod_gets_the_same_kinds_of_device(name: str) -> None:
    for one in compared(name).workloads:
        assert one.untried == ""
        assert (one.reason_before, one.reason) == ("", "")
        assert one.pods == one.fitted == one.fit > 0
        assert one.changed == one.lost == ()
        assert one.before
        assert all(got.kind.product for devices in (*one.before, *one.after) for got in devices)


def test_what_is_tried_is_of_every_sort() -> None:
    migrations = [migration for name in TRIED if (migration := on_its_fleet(name)) is not None]
    workloads = [one for migration in migrations for one in migration.workloads]
    requests = [request for one in workloads for container in one.containers for request in container.requests]
    assert len(workloads) >= 12
    assert {one.decision.outcome for one in workloads} == {"template", "claim", "class", "cannot"}
    assert {request.usage for request in requests} >= {"whole", "piece", "share", "fraction"}
    assert {request.vendor for request in requests} >= {"nvidia", "amd"}
    assert max(request.count for request in requests) == 8
    kinds = {"Pod", "Job", "CronJob", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet"}
    assert {one.kind for one in workloads} >= kinds
    assert any(label.expression for one in workloads for label in one.labels)


def test_what_stays_with_the_device_plugin_keeps_its_nodes() -> None:
    assert compared("too-many-shares").kept == {"t4-4x-pcie-1": ("Deployment default/crowd",)}
    assert compared("product-selector").kept == {}
