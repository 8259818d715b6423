"""What every test may use: the shared data, Hypothesis' bounds, the vector scores in the closing summary."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadline: a loaded machine is not a defect. Bounded: the whole suite must stay a matter of minutes.
settings.register_profile(
    "bounded", max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
# Continuous integration draws the same examples each time, so that red means the change and not the dice.
settings.register_profile("ci", parent=settings.get_profile("bounded"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "bounded")

MISSING = pytest.StashKey[set[str]]()
SCORES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[MISSING] = set()
    config.stash[SCORES] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What needs Kubernetes' own programs is tried when it is asked for: ``make test-kube``."""
    kube = Path(__file__).parent / "kube"
    if collection_path != kube:
        return None
    asked = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    return None if any(path.resolve().is_relative_to(kube.resolve()) for path in asked) else True


def _shared_root() -> Path:
    here = Path(__file__)
    candidates = [p.parent.parent.parent / "shared" for p in (here.absolute(), here.resolve())]
    if override := os.environ.get("ALLOTMENT_SHARED"):
        candidates.insert(0, Path(override))
    return next((c for c in candidates if c.is_dir()), candidates[-1])


@pytest.fixture(scope="session")
def shared(pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """Find a file of the shared upstream data (``../shared`` beside the project); skip, naming it, where it is not."""
    root = _shared_root()

    def find(relative: str) -> Path:
        path = root / relative
        if not path.exists():
            pytestconfig.stash[MISSING].add(relative)
            pytest.skip(f"shared data missing: {path}")
        return path.resolve()

    return find


@pytest.fixture
def record_score(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Add a line to the closing summary: the score of a vector file."""
    return pytestconfig.stash[SCORES].append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if scores := config.stash[SCORES]:
        terminalreporter.section("scores against the real Kubernetes, and other measures")
        for line in scores:
            terminalreporter.write_line(line)
    if missing := config.stash[MISSING]:
        terminalreporter.section("NOT TESTED: shared data missing", red=True)
        for relative in sorted(missing):
            terminalreporter.write_line(f"shared/{relative}", red=True)
