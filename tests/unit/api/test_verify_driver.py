"""``verify_driver``: its arguments; ``tests/lab/test_driver_verify.py`` verifies drivers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import allotment
from allotment import Cluster, InputError
from allotment.api.clusters.live import LiveSource
from allotment.drivers.verify import run
from allotment.drivers.verify.run import VerifiedDriver


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    context = {"name": "c", "context": {"cluster": "c"}}
    server = {"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}
    file = tmp_path / "config"
    file.write_text(json.dumps({"current-context": "c", "contexts": [context], "clusters": [server]}))
    return Cluster.live(kubeconfig=file, prefer_lab=False)


def test_one_folder_of_cdi_specs_requires_no_list(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    drivers: list[VerifiedDriver] = []

    def work_alone(source: LiveSource, work: Callable[[None, None], object]) -> object:
        return work(None, None)

    monkeypatch.setattr(LiveSource, "run", work_alone)
    monkeypatch.setattr(run, "run", lambda client, driver, observer: drivers.append(driver))
    allotment.verify_driver("dra.sock", cluster, cdi_roots="/etc/cdi")
    assert drivers == [VerifiedDriver(Path("dra.sock"), cdi_roots=(Path("/etc/cdi"),))]


def test_a_driver_is_verified_with_a_running_cluster_only() -> None:
    with pytest.raises(InputError, match="cluster: expected a running cluster"):
        allotment.verify_driver("dra.sock", Cluster.fleet("t4"))
