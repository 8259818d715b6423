"""Text output of a replay: progress on standard error, and a table of results."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Final

from allotment.api.replays.workers import Job, JobResult
from allotment.cli.output.console import Screen, folded
from allotment.tools.replay.experiment import Experiment
from allotment.tools.replay.report import FULL_DEMAND, Curve, CurvePoint, CurveStep

#: Seconds between progress lines.
_PAUSE: Final = 1.0


class ReplayProgress:
    """Prints progress on standard error; on a terminal the last line shows the current runs."""

    def __init__(self, runs: int, kept: int) -> None:
        self._out = sys.stderr
        self._lively = self._out.isatty()
        self._runs = runs
        self._made = kept
        self._reported_at = time.monotonic()
        self._open = False
        if kept:
            self._line(f"{kept} of {runs} runs found in the output directory")

    def progress(self, job: Job, mark: CurvePoint) -> None:
        """Show the progress of a run."""
        now = time.monotonic()
        if now - self._reported_at < (_PAUSE / 5 if self._lively else _PAUSE):
            return
        self._reported_at = now
        text = f"{job.policy}, seed {job.seed}: {mark.at:.0f} % arrived, {mark.allocated:.1f} % allocated"
        if self._lively:
            self._out.write(f"\r\x1b[K{text}")
            self._out.flush()
            self._open = True
        else:
            self._line(text)

    def done(self, done: JobResult) -> None:
        """Print the result of a run."""
        self._made += 1
        self._reported_at = time.monotonic()
        mark = at(done.marks)
        text = f"{done.job.policy}, seed {done.job.seed}: {mark.allocated:.2f} % allocated, {done.seconds:.1f} s"
        self._line(f"[{self._made}/{self._runs}] {text}")

    def close(self) -> None:
        """Clear the progress line."""
        if self._open:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._open = False

    def _line(self, text: str) -> None:
        self.close()
        self._out.write(f"{text}\n")
        self._out.flush()


def at(marks: Sequence[CurvePoint]) -> CurvePoint:
    """Return the point at which the demand reaches the capacity, or the last one before."""
    return min(marks, key=lambda mark: abs(mark.at - FULL_DEMAND))


def print_replay(screen: Screen, question: Experiment, curves: Sequence[Curve]) -> None:
    """Print the conclusion, then a row per policy."""
    steps = {curve.policy: curve.throughout() if question.use_times else curve.at(FULL_DEMAND) for curve in curves}
    for line in folded(_by_time(question, steps) if question.use_times else _by_chance(question, steps), screen.width):
        screen.line(line)
    screen.line()
    rows = [[curve.policy, *_cells(question, steps[curve.policy]), f"{curve.seconds:.1f}s"] for curve in curves]
    main = "REFUSED" if question.use_times else "UNALLOCATED"
    screen.table(["POLICY", main, "SPREAD", "FRAGMENTED", "USD/GPU-H", "RUNS", "TIME"], rows)


def _by_chance(question: Experiment, steps: dict[str, CurveStep]) -> str:
    best = max(steps, key=lambda policy: steps[policy].allocated.mean)
    step = steps[best]
    return (
        f"{best} leaves {100 - step.allocated.mean:.2f} % of {question.capacity:,} GPUs unallocated when pods have "
        f"requested {step.at:.0f} % of them."
    )


def _by_time(question: Experiment, steps: dict[str, CurveStep]) -> str:
    best = min(steps, key=lambda policy: steps[policy].refused.mean)
    step = steps[best]
    return (
        f"{best} refuses {step.refused.mean:.2f} % of the requested GPUs on a cluster with {question.capacity:,} GPUs "
        "while pods start and end."
    )


def _cells(question: Experiment, step: CurveStep) -> list[str]:
    if question.use_times:
        main, least, most = step.refused.mean, step.refused.least, step.refused.most
    else:
        main, least, most = 100 - step.allocated.mean, 100 - step.allocated.most, 100 - step.allocated.least
    allocated = step.allocated.mean / 100 * question.capacity
    usd = f"{step.usd.mean / allocated:.2f}" if step.usd is not None and allocated else "unknown"
    return [f"{main:.2f}%", f"{least:.2f}-{most:.2f}", f"{step.fragmented.mean:.2f}%", usd, str(step.runs)]
