"""``python -m tests.storm --cycles 500``."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.storm.storm import Broken, storm


def main() -> int:
    """Run a storm and print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--cycles", type=int, default=500, help="how often the lab is killed (%(default)s)")
    parser.add_argument("--workers", type=int, default=8, help="clients that write at once (%(default)s)")
    parser.add_argument(
        "--seed", type=int, help="of the storm's own dice; the moment of a kill is never the same twice"
    )
    parser.add_argument("--folder", type=Path, help="where the lab's data and log stay, to look at them afterwards")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.getrandbits(32)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="storm-") as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            outcome = asyncio.run(
                storm(folder, cycles=arguments.cycles, seed=seed, workers=arguments.workers, say=_say)
            )
        except Broken as error:
            sys.stderr.write(f"BROKEN: {error}\n")
            return 1
    _say(
        f"{outcome.cycles} kills in {time.monotonic() - began:.0f} s: {outcome.acknowledged} acknowledged writes, none "
        f"lost; {outcome.unanswered} cut off; no device allocated twice; slowest start {outcome.slowest_start:.2f} s; "
        f"settled {outcome.settled_after:.1f} s after the last start (seed {seed})"
    )
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
