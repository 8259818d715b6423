"""Plant small faults in the product, and count those that its tests see: ``python -m tests.mutation``.

A copy of HEAD is tested once with coverage (``pip install coverage``), to know which tests execute which lines. Then
each fault of a seeded sample is planted in the copy, and the nearest tests run until one fails. Faults that no test
sees are listed; whether one of them changes nothing that anybody can see is for a person to judge.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.nearest import NearestTests, record

PACKAGES: Final = ("engine", "scheduler", "controllers", "apiserver", "drivers", "packing")
#: The tests whose coverage is recorded; the nearest tests of a fault are among them.
TESTS: Final = (*(f"tests/unit/{package}" for package in PACKAGES), "tests/vectors", "tests/unit/lab", "tests/lab")
_REPOSITORY: Final = Path(__file__).parents[2]
#: How many tests try to see a fault: first the nearest few.
_NEAREST, _ALL = 25, 250


class Planted(NamedTuple):
    """A fault, the module that got it, and the test that saw it; empty if none did."""

    module: str
    mutant: Mutant
    seen_by: str


def main() -> int:
    """Run the sample, print the faults that no test saw and the share of the others."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=400, help="number of faults (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="tests at the same time (%(default)s)")
    parser.add_argument("--coverage", type=Path, metavar="FILE", help="use what an earlier run recorded of this commit")
    parser.add_argument("--only", default="", metavar="PART", help="faults of modules whose path contains PART")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all faults to a file, and go on from it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        checkouts = [_checkout(Path(folder) / str(number)) for number in range(arguments.processes)]
        data = arguments.coverage or Path(folder) / "coverage"
        if arguments.coverage is None:
            sys.stdout.write(f"{record(checkouts[0], TESTS, data)}\n")
        sample = _sample(checkouts[0], arguments.sample, arguments.seed, arguments.only)
        planted = _plant(sample, checkouts, data, _Log(arguments.json))
    missed = [each for each in planted if not each.seen_by]
    for each in missed:
        sys.stdout.write(f"NOT SEEN {each.module}:{each.mutant.line}: {each.mutant.old!r} -> {each.mutant.new!r}\n")
    share = 1 - len(missed) / len(planted) if planted else 1.0
    sys.stdout.write(f"{len(planted) - len(missed)} of {len(planted)} faults seen ({share:.1%})\n")
    return 0 if share >= 0.9 else 1


def _checkout(folder: Path) -> Path:
    subprocess.run(["git", "clone", "-q", "--shared", str(_REPOSITORY), str(folder)], check=True)
    shared = _REPOSITORY.parent / "shared"
    if shared.is_dir() and not (folder.parent / "shared").exists():
        (folder.parent / "shared").symlink_to(shared)
    return folder


def _sample(checkout: Path, count: int, seed: int, part: str) -> list[tuple[str, Mutant]]:
    every = [
        (str(path.relative_to(checkout)), mutant)
        for package in PACKAGES
        for path in sorted((checkout / "src" / "allotment" / package).rglob("*.py"))
        for mutant in mutants(path.read_bytes())
    ]
    chosen = random.Random(seed).sample(every, min(count, len(every)))
    return [each for each in chosen if part in each[0]]


class _Log:
    """What is known already: outcomes in a file, one JSON object a line. Written by one thread."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else ()
        self._known = {tuple(row["fault"]): row["seen_by"] for row in map(json.loads, lines)}

    def known(self, module: str, mutant: Mutant) -> Planted | None:
        seen_by = self._known.get((module, *mutant))
        return None if seen_by is None else Planted(module, mutant, seen_by)

    def add(self, planted: Planted) -> None:
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({"fault": [planted.module, *planted.mutant], "seen_by": planted.seen_by}) + "\n")


def _plant(sample: list[tuple[str, Mutant]], checkouts: list[Path], data: Path, log: _Log) -> list[Planted]:
    nearest = NearestTests(_recorded_in(data, checkouts[0]), data)
    tests = {fault: nearest.of(Path(fault[0]), fault[1].line, _ALL) for fault in sample}
    free: SimpleQueue[Path] = SimpleQueue()
    for checkout in checkouts:
        free.put(checkout)

    def one(fault: tuple[str, Mutant]) -> Planted:
        known = log.known(*fault)
        if known is not None:
            return known
        checkout = free.get()
        try:
            planted = Planted(*fault, _seen_by(checkout, *fault, tests[fault]))
        finally:
            free.put(checkout)
        log.add(planted)
        return planted

    planted = []
    started = time.monotonic()
    with ThreadPoolExecutor(len(checkouts)) as pool:
        for number, each in enumerate(pool.map(one, sample), 1):
            planted.append(each)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{number} of {len(sample)}, {time.monotonic() - started:.0f} s ")
    return planted


def _recorded_in(data: Path, checkout: Path) -> Path:
    """The checkout whose paths the data names: an earlier run had another one."""
    from coverage import CoverageData

    recorded = CoverageData(str(data))
    recorded.read()
    path = next((each for each in recorded.measured_files() if "/src/allotment/" in each), None)
    return checkout if path is None else Path(path.partition("/src/allotment/")[0])


def _seen_by(checkout: Path, module: str, mutant: Mutant, tests: list[str]) -> str:
    path = checkout / module
    source = path.read_bytes()
    _write(path, mutant.planted(source))
    try:
        doctests = [module] if b">>> " in source else []
        for chosen in (doctests + tests[:_NEAREST], tests[_NEAREST:]):
            if chosen and (seen_by := _first_failure(checkout, chosen)):
                return seen_by
        return ""
    finally:
        _write(path, source)


def _write(path: Path, source: bytes) -> None:
    """Write a module with a modification time that it never had: by it and the size, Python knows old bytecode."""
    modified = int(path.stat().st_mtime) + 1
    path.write_bytes(source)
    os.utime(path, (modified, modified))


def _first_failure(checkout: Path, tests: list[str]) -> str:
    """The first test that fails, or how pytest ended if it did not come to run tests; empty if all pass."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout=60", *tests]
    try:
        ended = subprocess.run(
            command, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=600.0
        )
    except subprocess.TimeoutExpired:
        return "no end within 600 s"
    if ended.returncode == 0:
        return ""
    failed = [line.split()[1] for line in ended.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else f"pytest ended with {ended.returncode}"


if __name__ == "__main__":
    if shutil.which("git") is None:
        sys.exit("git is needed")
    sys.exit(main())
