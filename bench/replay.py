"""Traces compared with published figures: ``python -m bench.replay``; ``--mixes`` for all thirteen mixes.

The published figures are those of Weng et al. ("Beware of Fragmentation", USENIX ATC 2023), from their own simulator,
with the same nodes, the same pods and ten orders of arrival. Their orders come from Go's generator and Allotment's from
Python's, so means are compared and not single runs. The data is not shipped: ``$ALLOTMENT_SHARED`` or ``../shared``
next to the project.
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
#: The published policies by Allotment's names for them.
PUBLISHED = {"random": "Random", "dot-product": "DotProd", "best-fit": "BestFit", "fgd": "FGD"}
LOOKAHEAD = "lookahead"
#: The targets for the default trace: the published median of least fragmentation; and seconds for a run.
LIMIT_DEFAULT, LIMIT_SECONDS, LIMIT_MIXES = 4.77, 20.0, 10


class TracesMissing(Exception):
    """Raised when the traces are missing."""


def folder() -> Path:
    """The folder of the traces."""
    root = Path(os.environ.get("ALLOTMENT_SHARED") or Path(__file__).absolute().parents[2] / "shared")
    found = root / "traces"
    if not (found / "fgd_anchor.csv").is_file():
        raise TracesMissing(f"no traces in {found}: expected Alibaba's GPU traces of 2023 and fgd_anchor.csv")
    return found


def published(traces: Path) -> dict[tuple[str, str], float]:
    """By mix and policy the medians of the percentage of unallocated GPUs once the pods have requested as many as
    exist."""
    with (traces / "fgd_anchor.csv").open(encoding="utf-8") as file:
        return {
            (row["workload"].removeprefix("openb_pod_list_"), row["policy"]): float(row["unalloc_pct_median"])
            for row in csv.DictReader(file)
            if float(row["arrived_pct"]) == FULL_DEMAND
        }


def unallocated(
    traces: Path, nodes: tuple[TraceNode, ...], mix: str, policy: PlacementPolicy
) -> tuple[list[float], float]:
    """The percentage for each seed, and the seconds of the slowest run."""
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
        published_value = f"{anchor:.2f}%" if anchor is not None else "–"
        spread = f"{min(values):.2f}–{max(values):.2f}"
        yield f"{policy.name:12}{fmean(values):>11.2f}%{spread:>15}{published_value:>11}{slowest:>9.1f}"
        if policy.name == LOOKAHEAD:
            yield ""
            mean = fmean(values)
            yield _target(
                mean <= LIMIT_DEFAULT,
                f"{LOOKAHEAD} leaves at most {LIMIT_DEFAULT} % of the GPUs unallocated: {mean:.2f} %",
            )
            yield _target(slowest < LIMIT_SECONDS, f"a run takes less than {LIMIT_SECONDS:.0f} s: {slowest:.1f} s")


def mixes(traces: Path, nodes: tuple[TraceNode, ...]) -> Iterator[str]:
    """Lookahead and least fragmentation on every mix, with the published figure of the latter."""
    anchors = published(traces)
    compared = [policy for policy in POLICIES if policy.name in (LOOKAHEAD, "fgd")]
    yield f"{'MIX':13}{'FGD PUBLISHED':>14}" + "".join(f"{policy.name.upper():>12}" for policy in compared)
    below = 0
    for mix in MIXES:
        anchor = anchors[mix, "FGD"]
        means = {policy.name: fmean(unallocated(traces, nodes, mix, policy)[0]) for policy in compared}
        below += means[LOOKAHEAD] < anchor
        yield f"{mix:13}{anchor:>13.2f}%" + "".join(f"{value:>11.2f}%" for value in means.values())
    yield ""
    target = f"{LOOKAHEAD} is below the published figure on at least {LIMIT_MIXES} mixes: {below}"
    yield _target(below >= LIMIT_MIXES, target)


def _target(met: bool, text: str) -> str:
    return f"{'met   ' if met else 'MISSED'}  {text}"


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    try:
        traces = folder()
    except TracesMissing as reason:
        print(f"SKIPPED: {reason}")
        return 0
    nodes = read_nodes((traces / "openb_node_list_gpu_node.csv").read_text(encoding="utf-8"))
    for line in mixes(traces, nodes) if "--mixes" in arguments else default(traces, nodes):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
