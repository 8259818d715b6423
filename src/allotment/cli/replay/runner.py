"""Runs a replay: executes the runs without a stored result, stores them, draws the chart, and prints the table."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from allotment.api.replay import default_seeds, outcome_of
from allotment.api.replays.experiment import policies_named, read_experiment
from allotment.api.replays.workers import Job, WorkerLost, run_jobs
from allotment.cli.output.console import open_screen
from allotment.cli.replay.options import seeds_of, share_of
from allotment.cli.replay.text_output import ReplayProgress, print_replay
from allotment.decoding import decodable
from allotment.errors import InputError
from allotment.files import atomic_write
from allotment.files.atomic_write import PUBLIC, TEMPORARY_SUFFIX
from allotment.tools.replay.experiment import Experiment
from allotment.tools.replay.report import Curve, RunOutcome, curves_of, to_csv

_RUNS: Final = "runs"


class Folder:
    """The output directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> None:
        """Create the directory, and delete partially written files of a killed run."""
        (self.path / _RUNS).mkdir(parents=True, exist_ok=True)
        for half in (self.path / _RUNS).glob(f".*{TEMPORARY_SUFFIX}"):
            half.unlink(missing_ok=True)

    def find(self, policy: str, seed: int, fingerprint: str) -> RunOutcome | None:
        """Return the stored outcome of a run of this experiment, or None if it is missing or unreadable."""
        try:
            outcome = msgspec.json.decode(self._file(policy, seed).read_bytes(), type=decodable(RunOutcome))
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return outcome if outcome.fingerprint == fingerprint else None

    def keep(self, outcome: RunOutcome) -> None:
        """Store the outcome of a run."""
        self.write(self._file(outcome.policy, outcome.seed), msgspec.json.encode(outcome))

    def write(self, path: Path, content: bytes) -> None:
        """Write a file atomically."""
        atomic_write.replace(path, content, mode=PUBLIC, single_writer=True)

    def _file(self, policy: str, seed: int) -> Path:
        return self.path / _RUNS / f"{policy}-{seed}.json"


_SUFFIXES = (".svg", ".png")


def run(arguments: Namespace) -> int:
    """Execute the missing runs, write the results and the chart, and print the table."""
    drawing = _drawing(arguments.picture) if arguments.picture is not None else None
    policies = policies_named(arguments.policy)
    seeds = seeds_of(arguments.seeds) if arguments.seeds else default_seeds(arguments.use_times)
    if arguments.jobs is not None and arguments.jobs < 1:
        raise InputError(f"--jobs {arguments.jobs}: expected a number >= 1")
    question = read_experiment(
        arguments.trace,
        arguments.nodes,
        load=share_of(arguments.load),
        use_times=arguments.use_times,
        catalog=arguments.catalog,
    )
    folder = Folder(Path(arguments.output_dir)) if arguments.output_dir else None
    if folder is not None:
        folder.prepare()
    jobs = [Job(policy.name, seed) for policy in policies for seed in seeds]
    outcomes = _outcomes(question, jobs, folder, arguments.jobs or os.cpu_count() or 1)
    curves = curves_of(outcomes)
    if folder is not None:
        folder.write(folder.path / "curves.csv", to_csv(curves).encode())
    if drawing is not None:
        drawing(curves, question)
    if arguments.output == "csv":
        sys.stdout.write(to_csv(curves))
    elif arguments.output == "json":
        data = msgspec.json.encode([curve.to_dict() for curve in curves])
        sys.stdout.write(msgspec.json.format(data).decode() + "\n")
    else:
        print_replay(open_screen(), question, curves)
    return 0


def _drawing(file: str) -> Callable[[Sequence[Curve], Experiment], None]:
    """Return the function that draws the chart. Raises InputError before the runs start if it cannot be written."""
    path = Path(file)
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"--picture {file}: expected a name that ends in {' or '.join(_SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--picture {file}: directory not found: {path.parent}")
    from allotment.cli.charts.replay import draw

    return partial(draw, path=path)


def _outcomes(question: Experiment, jobs: Sequence[Job], folder: Folder | None, processes: int) -> list[RunOutcome]:
    """Return the outcomes of all jobs, in order."""
    fingerprint = question.fingerprint()
    found: dict[Job, RunOutcome] = {}
    for job in jobs if folder is not None else ():
        assert folder is not None
        kept = folder.find(job.policy, job.seed, fingerprint)
        if kept is not None:
            found[job] = kept
    reporter = ReplayProgress(len(jobs), len(found))
    try:
        for done in run_jobs(question, [job for job in jobs if job not in found], processes, reporter.progress):
            outcome = outcome_of(fingerprint, done)
            if folder is not None:
                folder.keep(outcome)
            found[done.job] = outcome
            reporter.done(done)
    except WorkerLost as error:
        raise InputError(str(error), "run the command again, with fewer --jobs if memory is short") from None
    finally:
        reporter.close()
    return [found[job] for job in jobs]
