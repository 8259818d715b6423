"""Our scheduler and kube-scheduler on the same API server: pods per second from the first POST to the last binding.

``python -m bench.schedulers`` starts a control plane of Kubernetes' own programs for each run, with one of the two
schedulers, and has them take turns; a run is a cluster of its own. Pods have a claim template for one GPU each. What
is measured includes all that has to happen: the API server takes the pods, kube-controller-manager makes the claims,
the scheduler allocates, reserves and binds. Everything shares the cores of this machine.
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
    """What one scheduler did; ``cpu`` is its seconds of processor per pod, from when it was ready."""

    bound: Bound
    cpu: float


def run(paths: dict[str, str], scale: Scale, *, ours: bool) -> Run:
    """One cluster, one scheduler."""
    with real_kube.plane(paths, scheduler=not ours, durable=True) as plane, asyncio.Runner(
        loop_factory=new_event_loop
    ) as runner:  # fmt: skip
        if ours:
            command = [
                sys.executable, "-m", "allotment.cli.main", "run", "scheduler", "--scheduler-name", "default-scheduler",
                "--kubeconfig", str(plane.kubeconfig), "--health-bind-address", "127.0.0.1:0",
            ]  # fmt: skip
            plane.start("our-scheduler", command=command)
            plane.await_("our-scheduler", lambda: _is_ready(plane.folder / "our-scheduler.log"))
        name = "our-scheduler" if ours else "kube-scheduler"
        began = plane.cpu_seconds(name)
        bound = runner.run(binding(plane.server, scale))
        return Run(bound, (plane.cpu_seconds(name) - began) / scale.pods)


def _is_ready(log: Path) -> bool:
    """Whether ours says so where its log tells that it listens."""
    told = re.search(r"health: (\S+)/livez", log.read_text())
    try:
        with urllib.request.urlopen(f"{told[1] if told else 'http://127.0.0.1:0'}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _line(what: str, ours: str, theirs: str = "", ratio: float | None = None) -> str:
    return f"{what:<46} {ours:>12} {theirs:>14} {'' if ratio is None else f'{ratio:.2f}x':>7}".rstrip()


def compare(paths: dict[str, str], scale: Scale, rounds: int) -> None:
    """Measure both by turns, and print the medians and the best of each."""
    found: dict[bool, list[Run]] = {True: [], False: []}
    for number in range(rounds):
        for ours in (True, False) if number % 2 == 0 else (False, True):
            found[ours].append(run(paths, scale, ours=ours))
    shown: dict[bool, tuple[str, str]] = {}
    rates = {ours: [one.bound.rate for one in runs] for ours, runs in found.items()}
    middle = {ours: statistics.median(values) for ours, values in rates.items()}
    best = {ours: max(values) for ours, values in rates.items()}
    print(_line(f"{scale} (pods/s, median)", f"{middle[True]:.0f}", f"{middle[False]:.0f}",
                middle[True] / middle[False]))  # fmt: skip
    print(_line("  best", f"{best[True]:.0f}", f"{best[False]:.0f}", best[True] / best[False]))
    for ours, runs in found.items():
        p50, p99 = (statistics.median(getattr(one.bound, part) for one in runs) for part in ("p50", "p99"))
        cpu = statistics.median(one.cpu for one in runs) * 1000
        shown[ours] = (f"{p50:,.0f} {p99:,.0f}", f"{cpu:.1f}")
    print(_line("  latency of a pod: half, 99 % (ms)", shown[True][0], shown[False][0]))
    print(_line("  processor of the scheduler (ms a pod)", shown[True][1], shown[False][1]), flush=True)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.schedulers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="runs of each (%(default)s)")
    parser.add_argument("--only", choices=("ours", "theirs"), help="one run of one scheduler, at the first scale")
    asked = parser.parse_args()
    paths = real_kube.programs()
    if paths is None:
        print(f"SKIPPED: schedulers are not compared: {', '.join(real_kube.PROGRAMS)} are not all there")
        return 0
    if asked.only:
        one = run(paths, SCALES[0], ours=asked.only == "ours")
        print(f"{one.bound.rate:.0f} pods/s, {one.cpu * 1000:.1f} ms a pod, load {os.getloadavg()[0]:.1f}")
        return 0
    print(_line("", "ours", "kube-scheduler"))
    for scale in SCALES:
        compare(paths, scale, asked.rounds)
    print(f"(load at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
