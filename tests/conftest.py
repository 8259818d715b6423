"""Fixtures and settings of all tests: the shared data, Hypothesis' limits, the vector scores in the closing summary."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from tests.step_limit import short_searches as with_short_searches

# No deadline: a loaded machine is not a defect. Few examples, because the whole suite must take minutes only.
settings.register_profile(
    "bounded", max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# Continuous integration uses the same examples each time, so that a failure is caused by the change.
settings.register_profile("ci", parent=settings.get_profile("bounded"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "bounded")

# A pipe has no width, whatever the shell or the test process sets.
os.environ.pop("COLUMNS", None)

#: The property of a test report with a line for the closing summary; reports come from every worker process.
SCORE = "score"
#: Files and folders whose tests wait long, for flows at normal speed, timeouts or programs that they start.
_SLOW_FIRST = (
    "vectors/test_flows.py",
    "docs/test_screens.py",
    "vectors/test_scores.py",
    "lab/test_drivers_faults.py",
    "lab",
    "web/browser",
    "packaging",
    "clients",
    "components",
    "monitoring",
    "storm",
    "vectors",
    "unit/cli/demo",
    "unit/lab",
    "unit/test_extras.py",
)
#: Folders whose tests need programs that take long to build.
_ON_REQUEST = ("kube", "operators")
_MISSING = "shared data missing: "
_unfrozen: list[bool] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Tests that need programs of others run only when they are requested: ``make test-kube``, ``test-operators``."""
    if collection_path.parent != Path(__file__).parent or collection_path.name not in _ON_REQUEST:
        return None
    requested = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    return None if any(path.resolve().is_relative_to(collection_path.resolve()) for path in requested) else True


class _DoctestFiles:
    """Searches only files with examples for doctests: most have none, and each test process searches all of them."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collectors = yield
        if file_path.suffix == ".py" and ">>>" not in file_path.read_text(encoding="utf-8"):
            return [collector for collector in collectors if not isinstance(collector, DoctestModule)]
        return collectors


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_DoctestFiles())  # a hook of this file would apply to tests only


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the files that take longest first: a process that gets one at the end works alone for a minute."""
    here = Path(__file__).parent
    order = {here / name: number for number, name in enumerate(_SLOW_FIRST)}
    files = {item.path for item in items}
    numbers = {
        file: min((order[path] for path in (file, *file.parents) if path in order), default=len(order))
        for file in files
    }
    items.sort(key=lambda item: numbers[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt what collection creates from garbage collection: searching the objects of 13,000 tests, again and again,
    takes a fifth of the time of the tests. For the same reason, collect new objects less often."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()
    unfreeze = gc.unfreeze

    def unfreeze_for_this_test() -> None:
        unfreeze()
        _unfrozen.append(True)

    gc.unfreeze = unfreeze_for_this_test
    return collected


def pytest_runtest_logfinish() -> None:
    """Exempt the objects again after a test of a program that unfreezes them when it ends."""
    if _unfrozen:
        gc.freeze()
        _unfrozen.clear()


def _shared_root() -> Path:
    here = Path(__file__)
    candidates = [p.parent.parent.parent / "shared" for p in (here.absolute(), here.resolve())]
    if override := os.environ.get("ALLOTMENT_SHARED"):
        candidates.insert(0, Path(override))
    return next((c for c in candidates if c.is_dir()), candidates[-1])


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Find a file of the shared upstream data (``../shared`` next to the project); skip the test, naming the file, if
    missing."""
    root = _shared_root()

    def find(relative: str) -> Path:
        path = root / relative
        if not path.exists():
            pytest.skip(f"{_MISSING}{path}")
        return path.resolve()

    return find


@pytest.fixture(scope="module")
def short_searches() -> Iterator[None]:
    """Lower the step limit of searches for devices in all tests of the module."""
    with with_short_searches():
        yield


@pytest.fixture
def record_score(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Add a line to the closing summary: the score of a vector file."""
    return lambda line: record_property(SCORE, line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for outcome in ("passed", "failed", "skipped", "error")
        for report in terminalreporter.stats.get(outcome, ())
        if isinstance(report, pytest.TestReport)
    ]
    if scores := dict.fromkeys(line for report in reports for name, line in report.user_properties if name == SCORE):
        terminalreporter.section("scores against the real Kubernetes, and other measures")
        for line in scores:
            terminalreporter.write_line(str(line))
    if missing := {why for report in reports if report.skipped and _MISSING in (why := str(report.longrepr))}:
        terminalreporter.section("NOT TESTED: shared data missing", red=True)
        for path in sorted(why.partition(_MISSING)[2].rstrip("')") for why in missing):
            terminalreporter.write_line(path, red=True)
