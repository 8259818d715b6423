"""``python -m tests.kube.differing --seconds N --seed S``: worlds at random, decided by kube-scheduler and by us.

Each pod is tried twice in the very same state of a real cluster: by kube-scheduler and by our scheduler, one after the
other; the devices of one of them stay, and the next pod comes. Beside, ``explain`` is asked of the state before. All
must agree: on whether the pod has a place, on its devices where the node is the same, on Kubernetes' sentence where
there is none, and on nothing being given away twice. A world in which they do not is made as small as it gets.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Final

from bench.kube_programs import missing, programs
from bench.real_kube import ApiServer
from tests.kube.differing.place import cluster, place_on
from tests.kube.differing.searching import searched, shrunk, world_of
from tests.kube.differing.worlds.themes import THEMES

_SHOWN: Final = (
    "worlds", "pods", "bound", "same node", "same devices", "same victims", "same sentence", "known defect",
)  # fmt: skip


async def _run(running: ApiServer, arguments: argparse.Namespace) -> int:
    async with place_on(running) as place:
        seeds = range(arguments.seed, arguments.seed + arguments.worlds)
        found, themes = await searched(place, seeds, arguments.seconds, _say, arguments.theme)
        seen: set[str] = set()
        for seed, kind in ((seed, one.kind) for seed, differences in found.items() for one in differences):
            if not arguments.shrink or kind in seen:
                continue
            seen.add(kind)
            try:
                world, last = await shrunk(place, world_of(seed, arguments.theme), kind, arguments.shrink)
            except LookupError as error:
                _say(f"seed {seed}: {error}")
                continue
            _say(f"seed {seed}, smallest: {last.kind}\n    {last.told}")
            for tree in (*world.cluster, *world.pods):
                _say(f"  {json.dumps(tree)}")
        for what, count in place.counts.most_common():
            _say(f"{count:6d} {what}")
        _say(f"{'theme':12}" + "".join(f"{what:>14}" for what in _SHOWN))
        for theme, counts in themes.items():
            _say(f"{theme:12}" + "".join(f"{counts[what]:14d}" for what in _SHOWN))
    return 1 if found else 0


def main() -> int:
    """Search; 1 if something differs, 2 if the programs are not there."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube.differing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to search (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first world; the next has the next (%(default)s)")
    parser.add_argument("--theme", choices=list(THEMES), default="", help="of all worlds; each has its own otherwise")
    parser.add_argument("--worlds", type=int, default=1_000_000, help="at most so many")
    parser.add_argument("--shrink", type=float, default=0.0, help="seconds to make the first of a kind smaller")
    arguments = parser.parse_args()
    paths = programs()
    if paths is None:
        sys.stderr.write(f"{', '.join(missing())} not found: `python -m tests.kube.binaries` builds them\n")
        return 2
    with cluster(paths) as running:
        return asyncio.run(_run(running, arguments))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
