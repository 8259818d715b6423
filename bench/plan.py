"""The cost of machines for the pods of a trace, as multiples of a bound that no plan can go below.

``python -m bench.plan [--mixes default,cpu050] [--pods 2000] [--seconds 30]``. Pods and claims are those of
``tools.replay.encoding``, machines those of the packaged catalog, on demand; the engine decides what a machine holds. A
mix's pods are a random sample of its list, the same each time. The time starts with the objects, so it includes
decoding them, the templates of all machines and the bound. The baselines are re-implementations of the rules of
Karpenter and cluster-autoscaler, on the same problem and with the same bound.
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
from allotment.planning.formulation.problem import Formulation
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import read_demand
from allotment.tools.replay.manifests import PRODUCTS, objects_of
from allotment.tools.replay.trace import WHOLE, TracePod, read_pods
from bench.replay import MIXES, TracesMissing, folder

#: How GPUs are shared, so that a claim for a share finds its capacity.
MODE = f"consumable-shares={WHOLE}"
PODS = 2000
SECONDS = 30.0
#: Seconds after which an earlier answer is recorded as well.
EARLY = 10.0
#: Time limit for all pods of the default list.
ALL_SECONDS = 60.0


@dataclass
class AnswerHistory:
    """The improvements of an answer: seconds, cost and bound."""

    start: float
    points: list[tuple[float, int, int]] = field(default_factory=list)

    def note(self, cost: int, bound: int) -> None:
        """Record the current cost and bound."""
        self.points.append((perf_counter() - self.start, cost, bound))

    def at(self, seconds: float) -> float | None:
        """Cost as a multiple of the bound, both as known after this long; None if there was no answer yet."""
        known = [(cost, bound) for moment, cost, bound in self.points if moment <= seconds]
        return known[-1][0] / known[-1][1] if known else None


@dataclass(frozen=True)
class MixResult:
    """The results of one mix."""

    kinds: int
    bin_types: int
    history: AnswerHistory
    packing: Packing
    formulation_seconds: float
    """Seconds until the problem was set up, within the whole time."""
    baselines: tuple[tuple[str, float, int], ...]
    """Name, cost as a multiple of the bound, unserved items."""


def plan_mix(pods: Iterable[TracePod], seconds: float, *, with_baselines: bool) -> MixResult:
    """Plan for this long; then run the baselines."""
    chosen = tuple(pods)
    start = perf_counter()
    demand = read_demand((*CLASSES["nvidia"], *objects_of(chosen, PRODUCTS)), Features(kube="1.36"))
    question = Formulation(demand, catalog(), PlanLimits(modes=(MODE,)))
    formulated = perf_counter() - start
    history = AnswerHistory(start)
    packing = solve(
        question.problem, question.oracle, keep_going=lambda: perf_counter() - start < seconds,
        progress=history.note,
    )  # fmt: skip
    history.note(packing.cost, packing.bound)
    others: list[tuple[str, float, int]] = []
    rules: tuple[tuple[str, Callable[[], Packing]], ...] = (
        ("Karpenter", lambda: karpenter(question.problem, question.oracle)),
        ("cluster-autoscaler", lambda: cluster_autoscaler(question.problem, question.oracle)),
    )
    for name, rule in rules if with_baselines else ():
        baseline = rule()
        others.append((name, baseline.cost / packing.bound, sum(n for _, n in baseline.unpacked)))
    return MixResult(
        len(question.problem.kinds), len(question.problem.bin_types), history, packing, formulated, tuple(others)
    )


def sample(traces: Path, mix: str, count: int) -> list[TracePod]:
    """A sample of the pods of a mix; all if there are no more."""
    pods = list(read_pods((traces / f"openb_pod_list_{mix}.csv").read_text(encoding="utf-8")))
    return Random(0).sample(pods, count) if count < len(pods) else pods


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


def _line(mix: str, pods: int, found: MixResult, early: float, late: float) -> str:
    history = found.history
    first = history.points[0]
    baselines = " ".join(f"{ratio:10.2f}{'*' if remaining else ' '}" for _, ratio, remaining in found.baselines)
    remaining = sum(n for _, n in found.packing.unpacked)
    return (
        f"{mix:<12}{pods:>6}{found.kinds:>7}{found.bin_types:>7}{found.packing.cost / 1e6:>10,.2f}"
        f"{first[0]:>7.1f}{_ratio(first[1] / first[2]):>7}{_ratio(history.at(early)):>7}{_ratio(history.at(late)):>7}"
        f" {baselines}{f'  {remaining} unserved' if remaining else ''}"
    ).rstrip()


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.plan", description=__doc__)
    parser.add_argument("--mixes", default=",".join(MIXES), help="comma-separated list of mixes (default: all)")
    parser.add_argument("--pods", type=int, default=PODS, help="pods per mix (default: 2000)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="seconds per mix (default: 30)")
    parser.add_argument("--no-baselines", action="store_true", help="skip the baselines")
    parser.add_argument("--no-all", action="store_true", help="skip the run with all pods of the default list")
    given = parser.parse_args(argv)
    try:
        traces = folder()
    except TracesMissing as reason:
        print(f"SKIPPED: planning for traces is not measured: {reason}")
        return 0
    early, late = min(EARLY, given.seconds), given.seconds
    print(f"{'':<12}{'':>6}{'':>7}{'':>7}{'':>10}{'first answer':>14}{'times the bound':>14}{'baselines':>13}")
    print(f"{'mix':<12}{'pods':>6}{'kinds':>7}{'types':>7}{'USD/h':>10}{'s':>7}{'':>7}"
          f"{f'{early:g} s':>7}{f'{late:g} s':>7}{'Karpenter':>11}{'CA':>12}")  # fmt: skip
    worst: dict[float, float] = {}
    for mix in given.mixes.split(","):
        pods = sample(traces, mix, given.pods)
        found = plan_mix(pods, late, with_baselines=not given.no_baselines)
        print(_line(mix, len(pods), found, early, late), flush=True)
        for moment in (early, late):
            worst[moment] = max(worst.get(moment, 0.0), found.history.at(moment) or float("inf"))
    print(f"worst: {worst[early]:.3f} after {early:g} s, {worst[late]:.3f} after {late:g} s")
    if not given.no_all:
        pods = sample(traces, "default", 10**9)
        found = plan_mix(pods, ALL_SECONDS, with_baselines=not given.no_baselines)
        print(_line("all default", len(pods), found, early, ALL_SECONDS) + f"  ({ALL_SECONDS:g} s)")
    print("Ratios are the cost divided by the bound proven at that time; * means that some pods are not served.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
