"""``python -m tests.storm --cycles 500``."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.storm.faults import FAULTS
from tests.storm.storm import InvariantViolated, storm


def main() -> int:
    """Run a storm and print the outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--cycles", type=int, default=500, help="how often the lab is killed (%(default)s)")
    parser.add_argument("--workers", type=int, default=8, help="concurrent clients that write (%(default)s)")
    parser.add_argument("--seed", type=int, help="random seed; the time of a kill still varies")
    parser.add_argument("--fault", choices=list(FAULTS), default="", help="plant a fault, which must be noticed")
    parser.add_argument("--folder", type=Path, help="folder in which the lab's data and log are kept")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.getrandbits(32)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="storm-") as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            running = storm(
                folder, cycles=arguments.cycles, seed=seed, workers=arguments.workers, fault=arguments.fault, say=_print
            )
            outcome = asyncio.run(running)
        except InvariantViolated as error:
            sys.stderr.write(f"BROKEN: {error}\n")
            return 1
    _print(
        f"{outcome.cycles} kills in {time.monotonic() - start:.0f} s: {outcome.acknowledged} acknowledged writes, none "
        f"lost; {outcome.unanswered} cut off; {outcome.events} events of watches, none lost; "
        f"no device allocated twice; slowest start {outcome.slowest_start:.2f} s; "
        f"settled {outcome.settled_after:.1f} s after the last start (seed {seed})"
    )
    return 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
