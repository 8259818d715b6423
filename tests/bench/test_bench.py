"""The benchmark on clusters that are small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allotment.model.features import Features
from bench import report, shapes
from bench.engine import decode, inventory_of, run
from bench.measurement import Measurement, dump, parse


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Measurement]:
    monkeypatch.setattr(shapes, "SIZES", (10,))
    monkeypatch.setattr(shapes, "SEARCH_SIZES", (8, 64))
    monkeypatch.setattr(report, "SIZES", (10,))
    monkeypatch.setattr(report, "SEARCH_SIZES", (8, 64))
    lines = []
    for name, clusters in (("scheduling", shapes.scheduling()), ("searches", shapes.searches())):
        path = tmp_path / name
        shapes.write(path, clusters)
        for line in path.read_bytes().splitlines():
            cluster = decode(line)
            lines += [dump(run(inventory_of(cluster), case)) for case in cluster.cases]
    return parse(lines)


def test_every_shape_places_its_pods_and_every_search_refuses(measured: dict[str, Measurement]) -> None:
    for shape in shapes.SHAPES:
        placed = measured[f"{shape} @ 10"].placed
        assert placed
        assert all(placed) is (shape != shapes.UNSATISFIABLE), shape
        devices = [device for pod in placed for device in pod[1:]]
        assert len(devices) == len(set(devices)), "a device was allocated twice"
    for search in shapes.SEARCHES:
        assert measured[f"{search} @ 64"].placed == [[], [], []]


def test_pods_are_placed_round_robin(measured: dict[str, Measurement]) -> None:
    nodes = [placed[0] for placed in measured["MIG over shared counters @ 10"].placed]
    assert nodes[:10] == [f"node-{number:04}" for number in range(10)]


def test_the_report_compares_both_sides_and_checks_targets(measured: dict[str, Measurement]) -> None:
    slower = {name: Measurement(name, [second * 100 for second in m.seconds], m.placed) for name, m in measured.items()}
    text = "\n".join(report.scheduling(measured, slower))
    assert text.count("100×") == len(shapes.SHAPES)
    assert all(
        kept for kept, what in report.targets(measured, slower) if "times upstream" in what or "same node" in what
    )
    elsewhere = {name: Measurement(name, m.seconds, [["other"] for _ in m.placed]) for name, m in measured.items()}
    (same,) = ((kept, what) for kept, what in report.targets(measured, elsewhere) if "same node" in what)
    assert not same[0]
    assert "(0 of" in same[1]


def test_a_case_that_upstream_does_not_finish_gives_a_lower_limit() -> None:
    allotment = Measurement("a", [0.001])
    upstream = Measurement("a", [], unfinished=2.0)
    assert report.ratio(allotment, upstream) == pytest.approx(2000)


def test_features_are_those_of_the_release() -> None:
    gates = {
        "adminAccess": "DRAAdminAccess",
        "consumableCapacity": "DRAConsumableCapacity",
        "deviceBindingAndStatus": "DRADeviceBindingConditions",
        "deviceTaints": "DRADeviceTaints",
        "listTypeAttributes": "DRAListTypeAttributes",
        "partitionableDevices": "DRAPartitionableDevices",
        "prioritizedList": "DRAPrioritizedList",
    }
    features = Features(kube="1.36")
    assert {name: features.enabled(gates[name]) for name in shapes.FEATURES} == shapes.FEATURES


def test_input_is_plain_json(tmp_path: Path) -> None:
    assert json.loads(json.dumps(shapes.selectors())) == shapes.selectors()
