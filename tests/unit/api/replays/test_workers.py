"""Runs in processes, including processes that end before their run is complete."""

from __future__ import annotations

import os
import signal
from multiprocessing import active_children

import pytest

from allotment.api.replays.workers import Broken, Job, WorkerLost, run_jobs
from allotment.tools.replay.experiment import Experiment
from allotment.tools.replay.report import CurvePoint
from allotment.tools.replay.sample import sample_trace

JOBS = [Job("fgd", 1), Job("fgd", 2), Job("fgd", 3)]


def question() -> Experiment:
    return Experiment(*sample_trace())


def ignore(_job: Job, _mark: CurvePoint) -> None:
    return


def test_every_run_is_computed_once() -> None:
    assert sorted(done.job for done in run_jobs(question(), JOBS, 2, ignore)) == JOBS


def test_killed_worker_is_reported_and_others_are_terminated() -> None:
    def kill(_job: Job, _mark: CurvePoint) -> None:
        for child in active_children():
            if child.pid is not None:
                os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(WorkerLost, match="a worker process was killed or ran out of memory"):
        list(run_jobs(question(), JOBS, 2, kill))
    assert not active_children()


def test_a_failed_process_is_an_internal_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Broken):
        list(run_jobs(question(), [Job("no-such-policy", 1), Job("fgd", 1)], 2, ignore))
    assert "LookupError: no-such-policy" in capfd.readouterr().err
    assert not active_children()
