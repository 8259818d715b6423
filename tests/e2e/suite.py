"""Kubernetes' ``e2e.test``: its tests, and their results against a cluster."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

#: Tests of one group share this mark at the start of their names.
_GROUP: Final = re.compile(r"\[(sig-[a-z-]+)\]")
_GATE: Final = re.compile(r"\[FeatureGate:(\w+)\]")
_NOT_REACHED: Final = "not run within the time limit"
#: Ginkgo's message about a test that was running when the time was over.
_INTERRUPTED: Final = "A suite timeout occurred"
#: The state of a selected test that did not fail, in ginkgo's report.
_PASSED: Final = "passed"


class E2ETest(NamedTuple):
    """A test by its full name, as ``--ginkgo.focus`` matches it."""

    name: str

    @property
    def group(self) -> str:
        """The special interest group that owns the test, such as ``sig-apps``; empty if it states none."""
        found = _GROUP.search(self.name)
        return found[1] if found else ""

    @property
    def gates(self) -> tuple[str, ...]:
        """The feature gates that it needs."""
        return tuple(_GATE.findall(self.name))

    @property
    def is_off_by_default(self) -> bool:
        """Whether one of its features is off in a cluster with default gates."""
        return "[Feature:OffByDefault]" in self.name

    @property
    def is_about_devices(self) -> bool:
        """Whether it is one of DRA."""
        return "[DRA]" in self.name

    @property
    def is_serial(self) -> bool:
        """Whether it disturbs other tests, so that it must run alone."""
        return "[Serial]" in self.name


class Outcome(NamedTuple):
    """The outcome of a test. ``failure``: the first line of why it failed, empty if it passed."""

    test: E2ETest
    failure: str
    seconds: float

    @property
    def is_unfinished(self) -> bool:
        """Whether the time limit ended before the test."""
        return self.failure in (_NOT_REACHED, _INTERRUPTED)


class E2EError(Exception):
    """Raised if the program did not run to its end; the text is for the user."""


def tests_of(program: Path, focus: str) -> list[E2ETest]:
    """Return the tests whose names match a regular expression, in the program's order. Raises E2EError."""
    reports = _run(program, ["--ginkgo.dry-run", f"--ginkgo.focus={focus}"], 120.0)
    return [test for test, report in reports if report["State"] == _PASSED]


def run_tests(program: Path, tests: Sequence[E2ETest], kubeconfig: Path, seconds: float) -> list[Outcome]:
    """Run tests one after the other. Those not reached within ``seconds`` failed, or all if the program did."""
    # The description of the suite precedes the name.
    focus = "|".join(f" {re.escape(test.name)}$" for test in tests)
    options = ["--provider=skeleton", f"--kubeconfig={kubeconfig}", f"--ginkgo.timeout={seconds:.0f}s"]
    try:
        reports = dict(_run(program, [*options, f"--ginkgo.focus={focus}"], seconds + 120.0))
    except E2EError as error:
        return [Outcome(test, " ".join(str(error).split())[:300], 0.0) for test in tests]
    return [_outcome(test, reports.get(test)) for test in tests]


def shards(tests: Iterable[E2ETest], count: int) -> list[list[E2ETest]]:
    """Distribute tests, neighbors to different shards: the long ones of a group stand together.

    >>> [[test.name for test in shard] for shard in shards(map(E2ETest, "abcde"), 2)]
    [['a', 'c', 'e'], ['b', 'd']]
    """
    found = list(tests)
    return [shard for number in range(count) if (shard := found[number::count])]


def _outcome(test: E2ETest, report: dict[str, Any] | None) -> Outcome:
    if report is None or report["State"] == "skipped":
        return Outcome(test, _NOT_REACHED, 0.0)
    failure = report.get("Failure") or {}
    message = str(failure.get("Message") or report["State"]).strip()
    seconds = report.get("RunTime", 0) / 1e9
    return Outcome(test, "" if report["State"] == _PASSED else " ".join(message.split())[:300], seconds)


def _run(program: Path, options: Sequence[str], seconds: float) -> list[tuple[E2ETest, dict[str, Any]]]:
    """Run the program; return its report on each test."""
    with tempfile.TemporaryDirectory() as folder:
        report, log = Path(folder) / "report.json", Path(folder) / "log"
        command = [str(program), "--ginkgo.no-color", f"--ginkgo.json-report={report}", *options]
        with log.open("wb") as output:
            try:
                subprocess.run(command, cwd=folder, stdout=output, stderr=output, check=False, timeout=seconds)
            except subprocess.TimeoutExpired:
                raise E2EError(f"{program.name} did not end within {seconds:.0f} s") from None
        if not report.is_file() or not (text := report.read_text()):
            raise E2EError(f"{program.name} wrote no report:\n{log.read_text(errors='replace')[-2000:]}")
        suites = json.loads(text)
    return [
        (E2ETest(" ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])), spec)
        for suite in suites
        for spec in suite["SpecReports"] or ()
        if spec["LeafNodeType"] == "It"
    ]
