"""``make bench``: both sides on the same input in one run, one after the other, never at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from bench import peer, plot, report, shapes
from bench.measured import Measured, parse

OUT = Path(__file__).parent / "out"


def _module(name: str, *arguments: Path) -> str:
    """What another module of the benchmark prints, in a process of its own as upstream's side has."""
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
    theirs: dict[str, Measured] = {}
    try:
        program = peer.build(OUT / "upstream")
        print("measuring upstream (k8s.io/dynamic-resource-allocation v0.36.2) …", flush=True)
        theirs = peer.measure(program, [*inputs, selectors])
    except peer.Absent as reason:
        print(f"SKIPPED: upstream is not measured: {reason}", flush=True)
    print("measuring ours …", flush=True)
    ours = parse((_module("ours", *inputs) + _module("cel", selectors)).splitlines())
    _section("Placing pods: first feasible node from a rotating start, eight devices per node")
    print(*report.scheduling(ours, theirs), sep="\n")
    _section("Saying no: searches that double with each device, one node of n devices")
    print(*report.searches(ours, theirs), sep="\n")
    _section("Loading and memory")
    print(_module("memory", inputs[1]), end="")
    _section("CEL selectors, half of the rounds within")
    print(*report.selectors(ours, theirs), sep="\n")
    print("measuring the lab …", flush=True)
    _section("The lab beside the real control plane: the same requests over HTTP")
    print(_module("lab"), end="")
    _section("Our scheduler beside kube-scheduler, each alone on the real control plane")
    print(_module("schedulers"), end="")
    _section("Drivers on simulated hardware")
    print(_module("drivers"), end="")
    print("replaying traces …", flush=True)
    _section("A trace of GPU pods under several policies, beside published figures")
    print(_module("replay"), end="")
    print("planning for traces, 30 s each …", flush=True)
    _section("Machines for the pods of traces: cost by the proven bound, with the engine in the loop")
    print(_module("plan"), end="")
    _section("Promises")
    for kept, text in report.promises(ours, theirs):
        print(f"{'kept  ' if kept else 'MISSED'}  {text}")
    plot.draw(ours, theirs, OUT / "bench.png")
    print(f"\n{OUT / 'bench.png'}, after {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
