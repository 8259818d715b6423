"""Allotment's scheduler and kube-scheduler on the same API server: pods per second from the first POST to the last
binding.

``python -m bench.schedulers`` starts a control plane of Kubernetes' own programs for each run, with one of the two
schedulers, alternating; each run has a cluster of its own. Pods have a claim template for one GPU each. The measurement
includes all components: the API server creates the pods, kube-controller-manager the claims, the scheduler allocates,
reserves and binds. They all share the cores of this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import sys
import urllib.request
from pathlib import Path
from typing import Final, NamedTuple

from allotment.lab.http_server import new_event_loop
from bench import real_kube
from bench.control_plane import Bound, Scale, binding

SCALES: Final = (Scale(400, 100, 8), Scale(1000, 500, 8))
_ROUNDS: Final = 3


class Run(NamedTuple):
    """The result of one scheduler; ``cpu`` is its seconds of processor per pod, from when it was ready."""

    bound: Bound
    cpu: float


def run(paths: dict[str, str], scale: Scale, *, with_allotment: bool) -> Run:
    """One cluster, one scheduler."""
    with real_kube.plane(paths, scheduler=not with_allotment, durable=True) as plane, asyncio.Runner(
        loop_factory=new_event_loop
    ) as runner:  # fmt: skip
        if with_allotment:
            command = [
                sys.executable, "-m", "allotment.cli.main", "run", "scheduler", "--scheduler-name", "default-scheduler",
                "--kubeconfig", str(plane.kubeconfig), "--health-bind-address", "127.0.0.1:0",
            ]  # fmt: skip
            plane.start("our-scheduler", command=command)
            plane.await_("our-scheduler", lambda: _is_ready(plane.folder / "our-scheduler.log"))
        name = "our-scheduler" if with_allotment else "kube-scheduler"
        start = plane.cpu_seconds(name)
        bound = runner.run(binding(plane.server, scale))
        return Run(bound, (plane.cpu_seconds(name) - start) / scale.pods)


def _is_ready(log: Path) -> bool:
    """Whether Allotment's scheduler is ready, at the address in its log."""
    match = re.search(r"health: (\S+)/livez", log.read_text())
    try:
        with urllib.request.urlopen(f"{match[1] if match else 'http://127.0.0.1:0'}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _line(label: str, allotment: str, kube: str = "", ratio: float | None = None) -> str:
    return f"{label:<46} {allotment:>12} {kube:>14} {'' if ratio is None else f'{ratio:.2f}x':>7}".rstrip()


def compare(paths: dict[str, str], scale: Scale, rounds: int) -> None:
    """Measure both alternately, and print the medians and the best of each."""
    found: dict[bool, list[Run]] = {True: [], False: []}
    for number in range(rounds):
        for with_allotment in (True, False) if number % 2 == 0 else (False, True):
            found[with_allotment].append(run(paths, scale, with_allotment=with_allotment))
    shown: dict[bool, tuple[str, str]] = {}
    rates = {with_allotment: [run.bound.rate for run in runs] for with_allotment, runs in found.items()}
    middle = {with_allotment: statistics.median(values) for with_allotment, values in rates.items()}
    best = {with_allotment: max(values) for with_allotment, values in rates.items()}
    print(_line(f"{scale} (pods/s, median)", f"{middle[True]:.0f}", f"{middle[False]:.0f}",
                middle[True] / middle[False]))  # fmt: skip
    print(_line("  best", f"{best[True]:.0f}", f"{best[False]:.0f}", best[True] / best[False]))
    for with_allotment, runs in found.items():
        p50, p99 = (statistics.median(getattr(run.bound, part) for run in runs) for part in ("p50", "p99"))
        cpu = statistics.median(run.cpu for run in runs) * 1000
        shown[with_allotment] = (f"{p50:,.0f} {p99:,.0f}", f"{cpu:.1f}")
    print(_line("  pod latency: p50, p99 (ms)", shown[True][0], shown[False][0]))
    print(_line("  scheduler CPU time (ms per pod)", shown[True][1], shown[False][1]), flush=True)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.schedulers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="runs of each scheduler (default: %(default)s)")
    parser.add_argument(
        "--only", choices=("allotment", "kube-scheduler"), help="run only this scheduler, once, at the first scale"
    )
    options = parser.parse_args()
    paths = real_kube.programs()
    if paths is None:
        print(f"SKIPPED: schedulers are not compared: {', '.join(real_kube.PROGRAMS)} not found")
        return 0
    if options.only:
        result = run(paths, SCALES[0], with_allotment=options.only == "allotment")
        rate, cpu, load = result.bound.rate, result.cpu * 1000, os.getloadavg()[0]
        print(f"{rate:.0f} pods/s, {cpu:.1f} ms of CPU per pod, load average {load:.1f}")
        return 0
    print(_line("", "allotment", "kube-scheduler"))
    for scale in SCALES:
        compare(paths, scale, options.rounds)
    print(f"(load average at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
