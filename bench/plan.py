"""What machines for the pods of a trace cost, as multiples of a bound that no plan can go below.

``python -m bench.plan [--mixes default,cpu050] [--pods 2000] [--seconds 30]``. Pods and claims are those of
``tools.replay.encoding``, machines those of the packaged catalogue, on demand; what a machine holds the engine says. A
mix's pods are drawn from its list by chance, the same each time. The clock begins with the objects, so that reading
them, the templates of all machines and the bound are within the time. The rivals are our re-implementations of the
rules of Karpenter and cluster-autoscaler, on the same question and by the same bound.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import perf_counter

from allotment.fleet.catalog import catalog
from allotment.fleet.device_classes import CLASSES
from allotment.model.features import Features
from allotment.packing.baselines import cluster_autoscaler, karpenter
from allotment.packing.problem import Packing
from allotment.packing.solve import solve
from allotment.tools.plan.formulation.problem import Formulation
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.pending_pods.demand import read_demand
from allotment.tools.replay.manifests import PRODUCTS, objects_of
from allotment.tools.replay.trace import WHOLE, TracePod, read_pods
from bench.replay import MIXES, Absent, folder

#: How GPUs are shared, so that a claim for a share finds its capacity.
MODE = f"consumable-shares={WHOLE}"
PODS = 2000
SECONDS = 30.0
#: The seconds after which an answer is noted as well.
EARLY = 10.0
#: All pods of the default list, and how long for them.
ALL_SECONDS = 60.0


@dataclass
class Course:
    """How an answer got better: seconds, cost and bound."""

    began: float
    points: list[tuple[float, int, int]] = field(default_factory=list)

    def note(self, cost: int, bound: int) -> None:
        """One more point, now."""
        self.points.append((perf_counter() - self.began, cost, bound))

    def at(self, seconds: float) -> float | None:
        """Cost by bound as they were known after so long; None if there was no answer yet."""
        known = [(cost, bound) for moment, cost, bound in self.points if moment <= seconds]
        return known[-1][0] / known[-1][1] if known else None


@dataclass(frozen=True)
class Planned:
    """One mix."""

    kinds: int
    sorts: int
    course: Course
    packing: Packing
    asked: float
    """Seconds until the question was there, within the whole time."""
    rivals: tuple[tuple[str, float, int], ...]
    """Name, cost by bound, items left."""


def planned(pods: Iterable[TracePod], seconds: float, *, rivals: bool) -> Planned:
    """Plan for so long; then let the rivals buy."""
    chosen = tuple(pods)
    began = perf_counter()
    demand = read_demand((*CLASSES["nvidia"], *objects_of(chosen, PRODUCTS)), Features(kube="1.36"))
    question = Formulation(demand, catalog(), PlanLimits(modes=(MODE,)))
    asked = perf_counter() - began
    course = Course(began)
    packing = solve(
        question.problem, question.oracle, keep_going=lambda: perf_counter() - began < seconds, seconds=seconds,
        progress=course.note,
    )  # fmt: skip
    course.note(packing.cost, packing.bound)
    others: list[tuple[str, float, int]] = []
    rules: tuple[tuple[str, Callable[[], Packing]], ...] = (
        ("Karpenter", lambda: karpenter(question.problem, question.oracle)),
        ("cluster-autoscaler", lambda: cluster_autoscaler(question.problem, question.oracle)),
    )
    for name, rule in rules if rivals else ():
        theirs = rule()
        others.append((name, theirs.cost / packing.bound, sum(n for _, n in theirs.unpacked)))
    return Planned(len(question.problem.kinds), len(question.problem.bin_types), course, packing, asked, tuple(others))


def drawn(traces: Path, mix: str, count: int) -> list[TracePod]:
    """So many pods of a mix; all if there are no more."""
    pods = list(read_pods((traces / f"openb_pod_list_{mix}.csv").read_text(encoding="utf-8")))
    return Random(0).sample(pods, count) if count < len(pods) else pods


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


def _line(mix: str, pods: int, found: Planned, early: float, late: float) -> str:
    course = found.course
    first = course.points[0]
    rivals = " ".join(f"{ratio:10.2f}{'*' if left else ' '}" for _, ratio, left in found.rivals)
    left = sum(n for _, n in found.packing.unpacked)
    return (
        f"{mix:<12}{pods:>6}{found.kinds:>7}{found.sorts:>7}{found.packing.cost / 1e6:>10,.2f}"
        f"{first[0]:>7.1f}{_ratio(first[1] / first[2]):>7}{_ratio(course.at(early)):>7}{_ratio(course.at(late)):>7}"
        f" {rivals}{f'  {left} left' if left else ''}"
    ).rstrip()


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.plan", description=__doc__)
    parser.add_argument("--mixes", default=",".join(MIXES), help="by comma")
    parser.add_argument("--pods", type=int, default=PODS, help="of each mix (default: 2000)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each mix (default: 30)")
    parser.add_argument("--no-rivals", action="store_true", help="only ours")
    parser.add_argument("--no-all", action="store_true", help="without all pods of the default list")
    given = parser.parse_args(argv)
    try:
        traces = folder()
    except Absent as reason:
        print(f"SKIPPED: plans of traces are not measured: {reason}")
        return 0
    early, late = min(EARLY, given.seconds), given.seconds
    print(f"{'':<12}{'':>6}{'':>7}{'':>7}{'':>10}{'first answer':>14}{'times the bound':>14}{'rivals':>13}")
    print(f"{'mix':<12}{'pods':>6}{'kinds':>7}{'sorts':>7}{'USD/h':>10}{'s':>7}{'':>7}"
          f"{f'{early:g} s':>7}{f'{late:g} s':>7}{'Karpenter':>11}{'CA':>12}")  # fmt: skip
    worst: dict[float, float] = {}
    for mix in given.mixes.split(","):
        pods = drawn(traces, mix, given.pods)
        found = planned(pods, late, rivals=not given.no_rivals)
        print(_line(mix, len(pods), found, early, late), flush=True)
        for moment in (early, late):
            worst[moment] = max(worst.get(moment, 0.0), found.course.at(moment) or float("inf"))
    print(f"worst: {worst[early]:.3f} after {early:g} s, {worst[late]:.3f} after {late:g} s")
    if not given.no_all:
        pods = drawn(traces, "default", 10**9)
        found = planned(pods, ALL_SECONDS, rivals=not given.no_rivals)
        print(_line("all default", len(pods), found, early, ALL_SECONDS) + f"  ({ALL_SECONDS:g} s)")
    print("Times the bound, as it was proven by then; * not all pods served.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
