"""Traces replayed beside published figures: ``python -m bench.replay``; ``--mixes`` for all thirteen mixes.

The published ones are those of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023), of their own simulator, with
the same nodes, the same pods and ten orders of arrival. Theirs come from Go's generator and ours from Python's, so
means are compared and not runs. The data is not shipped: ``$ALLOTMENT_SHARED`` or ``../shared`` beside the project.
"""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from allotment.tools.replay.experiment import Experiment, run_experiment
from allotment.tools.replay.policies import POLICIES, PlacementPolicy
from allotment.tools.replay.report import FULL_DEMAND
from allotment.tools.replay.trace import TraceNode, read_nodes, read_pods

MIXES = (
    "default", "cpu050", "cpu100", "cpu200", "gpushare40", "gpushare60", "gpushare100", "gpuspec10", "gpuspec20",
    "gpuspec25", "multigpu20", "multigpu30", "multigpu40",
)  # fmt: skip
SEEDS = range(42, 52)
#: The published policies by our names for them.
PUBLISHED = {"random": "Random", "dot-product": "DotProd", "best-fit": "BestFit", "fgd": "FGD"}
OURS = "lookahead"
#: What was promised for the default trace: the published median of least fragmentation; and seconds for a run.
LIMIT_DEFAULT, LIMIT_SECONDS, LIMIT_MIXES = 4.77, 20.0, 10


class Absent(Exception):
    """Raised when the traces are not there."""


def folder() -> Path:
    """Where the traces are."""
    root = Path(os.environ.get("ALLOTMENT_SHARED") or Path(__file__).absolute().parents[2] / "shared")
    found = root / "traces"
    if not (found / "fgd_anchor.csv").is_file():
        raise Absent(f"no traces in {found}: wanted Alibaba's GPU traces of 2023 and fgd_anchor.csv")
    return found


def published(traces: Path) -> dict[tuple[str, str], float]:
    """By mix and policy the per cent of GPUs that are unallocated when as much was asked for as there is: medians."""
    with (traces / "fgd_anchor.csv").open(encoding="utf-8") as file:
        return {
            (row["workload"].removeprefix("openb_pod_list_"), row["policy"]): float(row["unalloc_pct_median"])
            for row in csv.DictReader(file)
            if float(row["arrived_pct"]) == FULL_DEMAND
        }


def unallocated(
    traces: Path, nodes: tuple[TraceNode, ...], mix: str, policy: PlacementPolicy
) -> tuple[list[float], float]:
    """Per cent for each seed, and the seconds that the slowest run took."""
    pods = read_pods((traces / f"openb_pod_list_{mix}.csv").read_text(encoding="utf-8"))
    question = Experiment(pods, nodes)
    values: list[float] = []
    slowest = 0.0
    for seed in SEEDS:
        begin = time.perf_counter()
        marks = run_experiment(question, policy, seed)
        slowest = max(slowest, time.perf_counter() - begin)
        values.append(100 - next(mark.allocated for mark in marks if mark.at == FULL_DEMAND))
    return values, slowest


def default(traces: Path, nodes: tuple[TraceNode, ...]) -> Iterator[str]:
    """Every policy on the default trace."""
    anchors = published(traces)
    yield f"{'POLICY':12}{'UNALLOCATED':>12}{'SPREAD':>15}{'PUBLISHED':>11}{'SECONDS':>9}"
    for policy in POLICIES:
        values, slowest = unallocated(traces, nodes, "default", policy)
        anchor = anchors.get(("default", PUBLISHED.get(policy.name, "")))
        told = f"{anchor:.2f}%" if anchor is not None else "–"
        spread = f"{min(values):.2f}–{max(values):.2f}"
        yield f"{policy.name:12}{fmean(values):>11.2f}%{spread:>15}{told:>11}{slowest:>9.1f}"
        if policy.name == OURS:
            yield ""
            yield _promise(
                fmean(values) <= LIMIT_DEFAULT, f"ours leaves at most {LIMIT_DEFAULT} %: {fmean(values):.2f} %"
            )
            yield _promise(slowest < LIMIT_SECONDS, f"a run takes less than {LIMIT_SECONDS:.0f} s: {slowest:.1f} s")


def mixes(traces: Path, nodes: tuple[TraceNode, ...]) -> Iterator[str]:
    """Ours and our least fragmentation on every mix, beside the published figure of the latter."""
    anchors = published(traces)
    compared = [policy for policy in POLICIES if policy.name in (OURS, "fgd")]
    yield f"{'MIX':13}{'FGD PUBLISHED':>14}" + "".join(f"{policy.name.upper():>12}" for policy in compared)
    below = 0
    for mix in MIXES:
        anchor = anchors[mix, "FGD"]
        means = {policy.name: fmean(unallocated(traces, nodes, mix, policy)[0]) for policy in compared}
        below += means[OURS] < anchor
        yield f"{mix:13}{anchor:>13.2f}%" + "".join(f"{value:>11.2f}%" for value in means.values())
    yield ""
    yield _promise(below >= LIMIT_MIXES, f"ours is below the published figure on at least {LIMIT_MIXES} mixes: {below}")


def _promise(kept: bool, text: str) -> str:
    return f"{'kept  ' if kept else 'MISSED'}  {text}"


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    try:
        traces = folder()
    except Absent as reason:
        print(f"SKIPPED: {reason}")
        return 0
    nodes = read_nodes((traces / "openb_node_list_gpu_node.csv").read_text(encoding="utf-8"))
    for line in mixes(traces, nodes) if "--mixes" in arguments else default(traces, nodes):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
