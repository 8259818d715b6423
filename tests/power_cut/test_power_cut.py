"""A sample of ``make power-cut``, and tests that it notices what loses data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.power_cut.cuts import Outcome, cut, recorded
from tests.power_cut.recording import compiled


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = compiled(tmp_path_factory.mktemp("recorder"))
    if found is None:
        pytest.skip("NOT TESTED: power cuts, because there is no Linux with a C compiler to build the recorder")
    return found


def outcome(library: Path, name: str, folder: Path, points: int, fault: str = "") -> Outcome:
    return cut(name, recorded(library, name, folder, fault), folder, points=points, seed=1)


@pytest.mark.parametrize(("name", "points"), [("store", 120), ("checkpoints", 40), ("files", 60), ("lab", 4)])
def test_a_power_cut_loses_nothing_that_was_acknowledged(library: Path, tmp_path: Path, name: str, points: int) -> None:
    found = outcome(library, name, tmp_path, points)
    assert [(failed.operation, failed.problem) for failed in found.cuts] == []
    assert found.points == points


@pytest.mark.parametrize(
    ("name", "fault", "problem"),
    [
        ("store", "the store does not sync", "was acknowledged, and"),
        ("files", "folders are not synced", "was written, and is gone"),
    ],
)
def test_missing_syncs_are_noticed(library: Path, tmp_path: Path, name: str, fault: str, problem: str) -> None:
    found = outcome(library, name, tmp_path, 60, fault)
    assert found.cuts
    assert problem in found.cuts[0].problem
