"""The time limit of a search of ``allot plan``, with a clock of the test."""

from __future__ import annotations

import pytest

from allotment.cli.plan import progress
from allotment.cli.plan.progress import Watch


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "monotonic", clock)
    return clock


def test_each_search_has_its_own_time_limit(clock: Clock) -> None:
    watch = Watch(2.5)
    for now, goes_on in ((100.0, True), (102.4, True), (102.5, False), (200.0, False)):
        clock.now = now
        assert watch.keep_going() is goes_on
    watch.restart()
    assert watch.keep_going()
    clock.now = 202.5
    assert not watch.keep_going()


def test_a_search_without_time_does_no_steps(clock: Clock) -> None:
    assert not Watch(0.0).keep_going()


def test_a_stopped_search_has_no_more_time(clock: Clock) -> None:
    watch = Watch(3.0)
    watch.stop()
    watch.restart()
    assert not watch.keep_going()


@pytest.mark.usefixtures("clock")
def test_a_search_without_a_time_limit_ends_only_by_ctrl_c() -> None:
    watch = Watch()
    assert watch.keep_going()
    watch.stop()
    assert not watch.keep_going()
