"""The integration tests of operators, unmodified, on the API server that ``allot envtest`` provides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from allotment.cli.main import main
from tests.operators.ginkgo import run_suite
from tests.operators.programs import BUILD_SECONDS, source_folder, suite_program

_SECONDS: Final = 1200.0
#: It completes the Jobs that exist, without waiting for those of the new JobSet; on a real API server it fails in one
#: of three runs.
_RACE: Final = "VolumeClaimPolicies should create two PVC with Delete and Retain policies"


#: They change an object, and expect that the controller has seen it when they change the next one. A write to etcd
#: takes long enough for that, one to a lab does not.
_LATENCY: Final = (
    "Pod restart will delete the pod group when restart policy is RecreateGroupOnPodRestart",
    "leader with RecreateGroupOnPodRestart only gets restarted once during rolling update",
    "resize should update the size of the replicas",
)


class Suite(NamedTuple):
    """The tests in a package of a module: the least number that pass, and patterns of those that are skipped."""

    module: str
    package: str
    passing: int
    skipped: tuple[str, ...] = ()


SUITES: Final[Mapping[str, Suite]] = {
    "jobset-controller": Suite("jobset", "test/integration/controller", 57, (_RACE,)),
    "jobset-webhook": Suite("jobset", "test/integration/webhook", 30),
    "lws-controllers": Suite("lws", "test/integration/controllers", 45, _LATENCY),
    "lws-webhooks": Suite("lws", "test/integration/webhooks", 80),
}


@pytest.mark.timeout(BUILD_SECONDS + _SECONDS)
@pytest.mark.parametrize("name", SUITES)
def test_the_suite_passes(name: str, tmp_path: Path) -> None:
    suite = SUITES[name]
    folder = source_folder(suite.module) / suite.package
    program = suite_program(suite.module, suite.package)
    assert main(["envtest", "--bin-dir", str(tmp_path)]) == 0
    [assets] = (tmp_path / "k8s").iterdir()
    result = run_suite(program, folder, assets, suite.skipped, _SECONDS, tmp_path)
    assert result.failed == {}
    assert len(result.passed) >= suite.passing
