"""``replay``: how policies schedule the pods of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike

from allotment.api.replays.experiment import SAMPLE, policies_named, read_experiment
from allotment.api.replays.workers import Job, JobResult, run_jobs
from allotment.errors import InputError
from allotment.extras import require
from allotment.tools.replay.report import Curve, RunOutcome, curves_of


def replay(
    trace: str | PathLike[str] = SAMPLE,
    *,
    nodes: str | PathLike[str] | None = None,
    policies: Sequence[str] = (),
    seeds: Iterable[int] = (),
    load: float = 1.3,
    use_times: bool = False,
    catalog: Sequence[str | PathLike[str]] = (),
    processes: int = 1,
) -> tuple[Curve, ...]:
    """Replay a trace with several policies; return a curve for each: GPUs allocated, fragmented and refused, and cost.

    ``trace``: a CSV file of pods, with the CSV file of its ``nodes``, or ``"sample"`` for the packaged trace.
    ``policies``: names; by default all. ``seeds``: of the random order of the pods, with a run for each; by default 42
    to 46, or 42 with ``use_times``. ``load``: the requested GPUs as a fraction of all; pods of the trace are repeated
    until they request as many. ``use_times``: start and end pods at the recorded times instead. ``catalog``: CSV files
    of prices that extend the packaged catalog.

    ``processes``: run as many at a time, in processes that `multiprocessing` spawns: a script then requires
    ``if __name__ == "__main__"``. Raises InputError, InvalidManifests, and MissingExtraError without numpy.
    """
    require("replaying a trace", "plan", modules=("numpy",))
    if processes < 1:
        raise InputError(f"expected a number >= 1, found {processes}", argument="processes")
    chosen = policies_named(policies)
    experiment = read_experiment(trace, nodes, load=load, use_times=use_times, catalog=catalog)
    numbers = tuple(seeds) or default_seeds(use_times)
    jobs = [Job(policy.name, seed) for policy in chosen for seed in numbers]
    fingerprint = experiment.fingerprint()
    found = {done.job: outcome_of(fingerprint, done) for done in run_jobs(experiment, jobs, processes)}
    return curves_of([found[job] for job in jobs])


def default_seeds(use_times: bool) -> tuple[int, ...]:
    """Return the seeds of a replay; with recorded times the order of the pods is not random."""
    return (42,) if use_times else (42, 43, 44, 45, 46)


def outcome_of(fingerprint: str, done: JobResult) -> RunOutcome:
    """Return the result of a run of the experiment with a fingerprint."""
    return RunOutcome(fingerprint, done.job.policy, done.job.seed, done.seconds, done.marks)
