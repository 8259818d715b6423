"""The cost of holding the largest cluster in memory: ``python -m bench.memory FILE``. Upstream builds it again for each
pod."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from time import perf_counter

from allotment.engine.allocator import Allocator
from bench.engine import decode, inventory_of


def _resident() -> float:
    """This process' resident memory in MB."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def _line(text: str, value: str) -> None:
    print(f"{text:52} {value}")


def main(path: Path) -> None:
    """Load the cluster, evaluate every node once, and print time and memory."""
    with path.open("rb") as lines:
        largest = max(lines, key=lambda line: line.count(b'"productName"') if b'"pods":' in line else 0)
    gc.collect()
    bare = _resident()
    begin = perf_counter()
    cluster = decode(largest)
    decoded = perf_counter()
    inventory = inventory_of(cluster)
    built = perf_counter()
    unsatisfiable = next(case for case in cluster.cases if case.name.startswith("unsatisfiable"))
    Allocator(inventory).place(unsatisfiable.claims)
    looked = perf_counter()
    devices = sum(len(slice_.spec.devices or ()) for slice_ in cluster.slices)
    _line(f"{devices:,} devices on {len(cluster.nodes):,} nodes: decode JSON", f"{decoded - begin:.2f} s")
    _line("build the inventory", f"{built - decoded:.2f} s")
    _line("first pod, which evaluates every device", f"{looked - built:.2f} s")
    del largest
    gc.collect()
    _line("memory, with every device evaluated", f"{_resident() - bare:,.0f} MB (process: {_resident():,.0f} MB)")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
