"""The benchmark runs and says what it should, on clusters small enough for a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allotment.model.features import Features
from bench import report, shapes
from bench.measured import Measured, dump, parse
from bench.ours import decode, inventory_of, run


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Measured]:
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


def test_every_shape_places_its_pods_and_every_search_refuses(measured: dict[str, Measured]) -> None:
    for shape in shapes.SHAPES:
        placed = measured[f"{shape} @ 10"].placed
        assert placed
        assert all(placed) is (shape != shapes.UNSATISFIABLE), shape
        devices = [device for pod in placed for device in pod[1:]]
        assert len(devices) == len(set(devices)), "a device was given twice"
    for search in shapes.SEARCHES:
        assert measured[f"{search} @ 64"].placed == [[], [], []]


def test_pods_go_round_the_nodes(measured: dict[str, Measured]) -> None:
    nodes = [placed[0] for placed in measured["MIG over shared counters @ 10"].placed]
    assert nodes[:10] == [f"node-{number:04}" for number in range(10)]


def test_the_report_compares_and_judges(measured: dict[str, Measured]) -> None:
    slower = {name: Measured(name, [second * 100 for second in m.seconds], m.placed) for name, m in measured.items()}
    text = "\n".join(report.scheduling(measured, slower))
    assert text.count("100×") == len(shapes.SHAPES)
    assert all(
        kept for kept, what in report.promises(measured, slower) if "times upstream" in what or "same node" in what
    )
    elsewhere = {name: Measured(name, m.seconds, [["other"] for _ in m.placed]) for name, m in measured.items()}
    (same,) = ((kept, what) for kept, what in report.promises(measured, elsewhere) if "same node" in what)
    assert not same[0]
    assert "(0 of" in same[1]


def test_a_case_that_upstream_does_not_finish_is_a_bound() -> None:
    ours = Measured("a", [0.001])
    theirs = Measured("a", [], unfinished=2.0)
    assert report.ratio(ours, theirs) == pytest.approx(2000)


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
