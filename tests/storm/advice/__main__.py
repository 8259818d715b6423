"""``python -m tests.storm.advice --count N --seed S``: evaluates the advice for random clusters with planted mistakes.

In each world a pod is pending because of one or two planted mistakes. The planted cause must be named first, the first
remedy must make the pod fit, explain, check, doctor, conditions and events must agree, and no reader of the pod's
namespace may see a name of another tenant. A world in which a criterion is not met is written to ``--out``, reduced,
as a file for ``allot explain -f``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.storm.advice.clusters import MAX_NODES
from tests.storm.advice.planting import planted_world
from tests.storm.advice.report import digest, missed, summary
from tests.storm.advice.shrinking import as_file, shrunk
from tests.storm.advice.tools import advice_for
from tests.storm.advice.verdicts import Verdict, evaluate
from tests.storm.advice.worlds import World


def evaluated(name: str, most: int = MAX_NODES) -> Verdict:
    """The verdict on the world of a name, with at most ``most`` nodes."""
    planted = planted_world(name, most)
    return evaluate(planted, advice_for(planted.world))


def evaluated_twice(name: str, most: int = MAX_NODES) -> Verdict:
    """The verdict on a world, after checking that the answers are the same a second time."""
    first, second = evaluated(name, most), evaluated(name, most)
    if first == second:
        return first
    return first._replace(failures=(*first.failures, ("repetition", "the same world has other answers a second time")))


def reduced(verdict: Verdict) -> str:
    """The smallest world found in which the criterion of the first failure is still not met, as a file."""
    planted = planted_world(verdict.name)
    name, text = verdict.failures[0]

    def fails(world: World) -> bool:
        smaller = planted._replace(world=world)
        return any(failed == name for failed, _ in evaluate(smaller, advice_for(world)).failures)

    smallest = shrunk(planted.world, fails)
    return as_file(smallest, f"{verdict.name}: {', '.join(verdict.mistakes)}\n{name}: {text}")


def _verdicts(names: Sequence[str], jobs: int) -> Iterator[Verdict]:
    if jobs == 1:
        yield from map(evaluated, names)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(evaluated, names, chunksize=4)


def main() -> int:
    """Run the command line; return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.storm.advice", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="number of worlds (%(default)s)")
    parser.add_argument("--seed", default="advice", help="names the worlds: SEED/0, SEED/1, … (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first world (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--out", type=Path, default=None, help="directory for worlds in which a criterion is not met")
    parser.add_argument("--shown", type=int, default=20, help="maximum number of such worlds that are written")
    arguments = parser.parse_args()
    names = [f"{arguments.seed}/{number}" for number in range(arguments.first, arguments.first + arguments.count)]
    verdicts: list[Verdict] = []
    for verdict in _verdicts(names, arguments.jobs):
        verdicts.append(verdict)
        for name, text in verdict.failures:
            _print(f"{verdict.name} ({', '.join(verdict.mistakes)}): {name}: {text}")
    for line in summary(verdicts):
        _print(line)
    _print(f"digest of all answers: {digest(verdicts)}")
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for verdict in [found for found in verdicts if found.failures][: arguments.shown]:
            path = arguments.out / f"{verdict.name.replace('/', '-')}.yaml"
            path.write_text(reduced(verdict))
            _print(f"written: {path}")
    return 1 if missed(verdicts) else 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
