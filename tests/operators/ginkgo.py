"""Runs a program of Ginkgo tests, and reads its report."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class SuiteResult(NamedTuple):
    """``passed``: the names of tests. ``failed``: the first line of the failure of each other test, by name."""

    passed: tuple[str, ...]
    failed: dict[str, str]


def run_suite(
    program: Path, folder: Path, assets: Path, skipped: Iterable[str], seconds: float, reports: Path
) -> SuiteResult:  # fmt: skip
    """Run the tests of a package in its folder with envtest's programs in ``assets``.

    A test that fails is tried three times. ``skipped``: patterns of names. ``reports``: a folder for the report and
    the log.
    """
    report, log = reports / "report.json", reports / "log"
    options = [f"-ginkgo.skip={pattern}" for pattern in skipped]
    # Some tests depend on the order in which informers of the operator see changes.
    command = [str(program), "-ginkgo.no-color", "-ginkgo.flake-attempts=3", f"-ginkgo.json-report={report}", *options]
    # A loaded machine is not a defect.
    environment = {
        **os.environ, "KUBEBUILDER_ASSETS": str(assets), "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": "120s"
    }  # fmt: skip
    with log.open("wb") as output:
        subprocess.run(
            command, cwd=folder, env=environment, stdout=output, stderr=output, check=False, timeout=seconds
        )  # fmt: skip
    assert report.is_file(), log.read_text(errors="replace")[-3000:]
    passed, failed = [], {}
    for suite in json.loads(report.read_text()):
        for spec in suite["SpecReports"] or ():
            name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"] or spec["LeafNodeType"]])
            if spec["State"] == "passed" and spec["LeafNodeType"] == "It":
                passed.append(name)
            elif spec["State"] not in ("passed", "skipped", "pending"):
                message = (spec.get("Failure") or {}).get("Message") or spec["State"]
                failed[name] = " ".join(message.split())[:400]
    return SuiteResult(tuple(passed), failed)
