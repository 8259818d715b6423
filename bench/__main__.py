"""``make bench``: both sides on the same input in one run, one after the other, never at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench import plot, report, shapes, upstream_allocator
from bench.measurement import Measurement, parse

OUT = Path(__file__).parent / "out"


def _module(name: str, *arguments: Path) -> str:
    """The output of another module of the benchmark, run in a process of its own like upstream's side."""
    command = [sys.executable, "-m", f"bench.{name}", *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parents[1]).stdout


def _section(title: str) -> None:
    print(f"\n{title}\n")


def main() -> int:
    """Measure, print, plot."""
    begin = time.perf_counter()
    OUT.mkdir(exist_ok=True)
    inputs = [OUT / "searches.jsonl", OUT / "scheduling.jsonl"]
    selectors = OUT / "selectors.json"
    selectors.write_text(json.dumps(shapes.selectors()), encoding="utf-8")
    shapes.write(inputs[0], shapes.searches())
    shapes.write(inputs[1], shapes.scheduling())
    upstream: dict[str, Measurement] = {}
    try:
        program = upstream_allocator.build(OUT / "upstream")
        print("measuring upstream (k8s.io/dynamic-resource-allocation v0.36.2) …", flush=True)
        upstream = upstream_allocator.measure(program, [*inputs, selectors])
    except upstream_allocator.UpstreamUnavailable as reason:
        print(f"SKIPPED: upstream is not measured: {reason}", flush=True)
    print("measuring Allotment …", flush=True)
    allotment = parse((_module("engine", *inputs) + _module("cel", selectors)).splitlines())
    _section("Placing pods: first feasible node from a rotating start index, eight devices per node")
    print(*report.scheduling(allotment, upstream), sep="\n")
    _section("Refusals: searches whose work doubles with each device, on one node with n devices")
    print(*report.searches(allotment, upstream), sep="\n")
    _section("Loading and memory")
    print(_module("memory", inputs[1]), end="")
    _section("CEL selectors: median time")
    print(*report.selectors(allotment, upstream), sep="\n")
    print("measuring the lab …", flush=True)
    _section("The lab and the real control plane: the same requests over HTTP")
    print(_module("lab"), end="")
    _section("Allotment's scheduler and kube-scheduler, each alone on the real control plane")
    print(_module("schedulers"), end="")
    _section("Drivers on simulated hardware")
    print(_module("drivers"), end="")
    _section("Answers for programs over HTTP, 1,000 nodes with eight GPUs each")
    print(_module("programs"), end="")
    _section("The page: a cluster in memory, and 50 open pages")
    print(_module("pages"), end="")
    _section("The page in Chromium: first paint, changes on the screen, heap, 5,000 pending pods")
    print(_module("browser"), end="")
    _section("The views of the page, 1,000 nodes with eight GPUs each, 10,000 pods")
    print(_module("screens"), end="")
    print("replaying traces …", flush=True)
    _section("A trace of GPU pods under several policies, compared with published figures")
    print(_module("replay"), end="")
    print("planning machines for traces, 30 s each …", flush=True)
    _section("Machines for the pods of traces: cost as a multiple of the proven lower bound")
    print(_module("plan"), end="")
    _section("Targets")
    for kept, text in report.targets(allotment, upstream):
        print(f"{'met   ' if kept else 'MISSED'}  {text}")
    plot.draw(allotment, upstream, OUT / "bench.png")
    print(f"\n{OUT / 'bench.png'}, written after {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
