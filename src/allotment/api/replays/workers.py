"""Runs experiments in worker processes, one per core.

A worker receives one run at a time and reports progress over its own pipe. The pipe closes when the parent process
ends for any reason, and the worker exits.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import NamedTuple

from allotment.tools.replay.experiment import Experiment, find_policy, run_experiment
from allotment.tools.replay.report import CurvePoint


class Job(NamedTuple):
    """A run to execute."""

    policy: str
    seed: int


class JobResult(NamedTuple):
    """The outcome of a run, and its duration in seconds."""

    job: Job
    marks: tuple[CurvePoint, ...]
    seconds: float


class WorkerLost(Exception):
    """Raised when a worker ended before its run finished."""


class Broken(Exception):
    """Raised when a worker failed, which is an internal error; it has printed its traceback."""


Progress = Callable[[Job, CurvePoint], None]


def ignore_progress(job: Job, mark: CurvePoint) -> None:
    """Do nothing with the progress of a run."""


def run_jobs(
    question: Experiment, jobs: Sequence[Job], processes: int, progress: Progress = ignore_progress
) -> Iterator[JobResult]:
    """Yield the results as they complete, in no particular order."""
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield _run(question, job, progress)
        return
    yield from _run_by_workers(question, list(jobs), min(processes, len(jobs)), progress)


def _run(question: Experiment, job: Job, progress: Progress) -> JobResult:
    policy = find_policy(job.policy)
    if policy is None:
        raise LookupError(job.policy)
    begin = time.perf_counter()
    marks = run_experiment(question, policy, job.seed, lambda mark: progress(job, mark))
    return JobResult(job, marks, time.perf_counter() - begin)


def _run_by_workers(
    question: Experiment, waiting: list[Job], processes: int, progress: Progress
) -> Iterator[JobResult]:
    # Spawned: a forked worker would inherit the other ends of its siblings' pipes and outlive the parent.
    context = get_context("spawn")
    workers: dict[Connection, SpawnProcess] = {}
    try:
        for _ in range(processes):
            parent_end, worker_end = context.Pipe()
            worker = context.Process(target=_work, args=(worker_end, question), daemon=True)
            worker.start()
            worker_end.close()
            workers[parent_end] = worker
            parent_end.send(waiting.pop(0))
        busy = set(workers)
        while busy:
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                message = _received(pipe, workers[pipe])
                if isinstance(message, JobResult):
                    if waiting:
                        pipe.send(waiting.pop(0))
                    else:
                        busy.remove(pipe)
                    yield message
                else:
                    progress(*message)
    finally:
        for pipe, worker in workers.items():
            pipe.close()
            worker.terminate()
            worker.join()


def _received(pipe: Connection, worker: SpawnProcess) -> JobResult | tuple[Job, CurvePoint]:
    try:
        message: JobResult | tuple[Job, CurvePoint] = pipe.recv()
    except (EOFError, ConnectionResetError):
        worker.join()
        if worker.exitcode is not None and worker.exitcode >= 0:
            raise Broken("a worker process failed") from None
        raise WorkerLost("a worker process was killed or ran out of memory") from None
    return message


def _work(pipe: Connection, question: Experiment) -> None:
    """Run experiments from a pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles the interrupt
    try:
        while True:
            job: Job = pipe.recv()
            pipe.send(_run(question, job, lambda job, mark: pipe.send((job, mark))))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
