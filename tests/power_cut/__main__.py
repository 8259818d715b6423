"""``python -m tests.power_cut --points 10000``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.power_cut.cuts import SUBJECTS, cut, recorded
from tests.power_cut.disk import write_files
from tests.power_cut.faults import FAULTS
from tests.power_cut.recording import compiled


def main() -> int:
    """Cut the power, and print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.power_cut", description=__doc__)
    parser.add_argument("--points", type=int, default=10_000, help="how many states to check (%(default)s)")
    parser.add_argument("--seed", type=int, default=Random().getrandbits(32), help="random seed of the states")
    parser.add_argument("--subject", choices=list(SUBJECTS), help="only this subject")
    parser.add_argument("--fault", choices=list(FAULTS), default="", help="plant a fault in the programs")
    parser.add_argument("--keep", type=Path, help="folder for the states that are not accepted")
    arguments = parser.parse_args()
    memory = Path("/dev/shm")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="power-cut-", dir=memory if memory.is_dir() else None) as temporary:
        folder = Path(temporary).resolve()
        library = compiled(folder)
        if library is None:
            sys.stderr.write("NOT TESTED: this requires Linux and a C compiler\n")
            return 3
        for name, (_, share) in SUBJECTS.items():
            if arguments.subject not in (None, name):
                continue
            start = time.monotonic()
            points = arguments.points if arguments.subject else round(arguments.points * share)
            operations = recorded(library, name, folder, arguments.fault)
            outcome = cut(name, operations, folder, points=points, seed=arguments.seed)
            sys.stdout.write(
                f"{name}: {outcome.points} different states after power cuts at {outcome.operations} operations, in "
                f"{time.monotonic() - start:.0f} s (seed {arguments.seed})\n"
            )
            for found in outcome.cuts:
                failed += 1
                sys.stdout.write(f"  BROKEN after operation {found.operation}: {found.problem}\n")
                if arguments.keep:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    write_files(found.files, folder / f"{name}-original", arguments.keep / f"{name}-{found.operation}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
