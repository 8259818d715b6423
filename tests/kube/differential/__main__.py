"""``python -m tests.kube.differential --seconds N --seed S``: random scenarios, decided by kube-scheduler and by
Allotment.

Each pod is tried twice in the same state of a real cluster: by kube-scheduler and by Allotment's scheduler, one after
the other; the allocation of one of them stays, and the next pod follows. In addition, ``explain`` runs on the state
before. All must agree: on whether the pod is placed, on its devices where the node is the same, on Kubernetes' message
where it is not placed, and no device is allocated twice. A scenario in which they disagree is minimized.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Final

from bench.kube_programs import missing, programs
from bench.real_kube import ApiServer
from tests.kube.differential.runner import cluster, scenario_runner
from tests.kube.differential.scenarios.themes import themes_of
from tests.kube.differential.search import scenario_of, search, shrink
from tests.kube.flows import FEATURES

_SHOWN: Final = (
    "scenarios", "pods", "bound", "same node", "same devices", "same victims", "same sentence", "known defect",
)  # fmt: skip


async def _run(running: ApiServer, arguments: argparse.Namespace) -> int:
    async with scenario_runner(running) as runner:
        seeds = range(arguments.seed, arguments.seed + arguments.scenarios)
        found, themes = await search(runner, seeds, arguments.seconds, _print, arguments.theme)
        seen: set[str] = set()
        for seed, kind in (
            (seed, difference.kind) for seed, differences in found.items() for difference in differences
        ):
            if not arguments.shrink or kind in seen:
                continue
            seen.add(kind)
            try:
                scenario, last = await shrink(runner, scenario_of(seed, arguments.theme), kind, arguments.shrink)
            except LookupError as error:
                _print(f"seed {seed}: {error}")
                continue
            _print(f"seed {seed}, smallest: {last.kind}\n    {last.detail}")
            for tree in (*scenario.cluster, *scenario.pods):
                _print(f"  {json.dumps(tree)}")
        for what, count in runner.counts.most_common():
            _print(f"{count:6d} {what}")
        _print(f"{'theme':18}" + "".join(f"{what:>14}" for what in _SHOWN))
        for theme, counts in themes.items():
            _print(f"{theme:18}" + "".join(f"{counts[what]:14d}" for what in _SHOWN))
    return 1 if found else 0


def main() -> int:
    """Run the command line; return 1 if something differs, 2 if the programs are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.kube.differential", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to search (%(default)s)")
    seed = "seed of the first scenario; the next one has the next seed (%(default)s)"
    parser.add_argument("--seed", type=int, default=0, help=seed)
    theme = "theme of all scenarios; by default the themes alternate"
    parser.add_argument("--theme", choices=themes_of(FEATURES), default="", help=theme)
    parser.add_argument("--scenarios", type=int, default=1_000_000, help="maximum number of scenarios")
    shrink = "seconds to minimize the first scenario of each kind of difference (%(default)s)"
    parser.add_argument("--shrink", type=float, default=0.0, help=shrink)
    arguments = parser.parse_args()
    paths = programs()
    if paths is None:
        sys.stderr.write(f"{', '.join(missing())} not found: `python -m tests.kube.binaries` builds them\n")
        return 2
    with cluster(paths) as running:
        return asyncio.run(_run(running, arguments))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
