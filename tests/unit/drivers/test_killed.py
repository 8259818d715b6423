"""A killed driver loses nothing and leaves nothing; ``python -m tests.storm.drivers`` kills it more often."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storm.drivers import InvariantViolated, Storm


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="al-"))
    yield path
    shutil.rmtree(path)


def test_ten_kills_leave_no_mig_device_daemon_or_cdi_file_and_lose_no_device(folder: Path) -> None:
    outcome = Storm(folder, seed=7).run(10)
    assert outcome.kills == 10
    assert outcome.cut_off > 0
    assert outcome.answered > 0


def test_the_storm_detects_leftovers(folder: Path) -> None:
    storm = Storm(folder, seed=7)
    storm.run(1)
    (folder / "cdi" / "k8s.gpu.nvidia.com-claim_7.json").write_text("{}")
    with pytest.raises(InvariantViolated, match="CDI files"):
        storm._check()
