"""Run Kubernetes' own end-to-end tests against a lab: ``python -m tests.e2e [RELEASE…]`` (``make test-e2e``).

The program is built from Kubernetes' published module on first use (``tests.kube.binaries``). By default these are the
conformance tests of the groups that ``exclusions.toml`` names and the tests of DRA's control plane; excluded are those
that need real containers, networks or volumes, each with its reason. ``--focus`` selects others by a regular
expression. The last lines are a table by group; the exit status is 1 if a test failed that is not excluded.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.kube_programs import RELEASES
from tests.e2e.exclusions import Exclusions
from tests.e2e.report import table
from tests.e2e.suite import E2EError, E2ETest, Outcome, run_tests, shards, tests_of
from tests.kube.binaries import E2E_PROGRAM, SKIPPED, BuildError, build_missing
from tests.storm.process import LabProcess

_FLEET: Final = "t4-4x-pcie:2"


def main() -> int:
    """Run the tests of each release, and print what failed and a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"{' or '.join(RELEASES)} (all)")
    parser.add_argument("--focus", help="regular expression that selects tests by name")
    parser.add_argument("--excluded", action="store_true", help="run the excluded tests, too: some may pass by now")
    parser.add_argument("--processes", type=int, default=4, help="test programs at the same time (%(default)s)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="time limit for a release (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes to a file")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.releases if name not in RELEASES]
    if unknown:
        parser.error(f"RELEASE: expected {' or '.join(RELEASES)}, found {unknown[0]}")
    exclusions = Exclusions.read()
    failed = False
    found: dict[str, list[Outcome]] = {}
    for release in arguments.releases or RELEASES:
        try:
            program = build_missing((E2E_PROGRAM,), release) / E2E_PROGRAM
            tests = tests_of(program, arguments.focus or exclusions.focus)
            excluded = [test for test in tests if exclusions.reason(test)] if not arguments.excluded else []
            chosen = [test for test in tests if test not in set(excluded)]
            found[release] = _outcomes(program, release, chosen, arguments.processes, arguments.seconds)
        except BuildError as error:
            sys.stderr.write(f"{error}\n")
            return 0 if error.status == SKIPPED else 1
        except E2EError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        for outcome in found[release]:
            if outcome.failure:
                failed = True
                sys.stdout.write(f"FAILED {outcome.test.name}\n  {outcome.failure}\n")
        sys.stdout.write(f"{table(release, found[release], excluded)}\n")
    if arguments.json is not None:
        rows = {
            release: [{"name": each.test.name, "failure": each.failure, "seconds": each.seconds} for each in outcomes]
            for release, outcomes in found.items()
        }
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failed else 0


def _outcomes(
    program: Path, release: str, tests: list[E2ETest], processes: int, seconds: float
) -> list[Outcome]:  # fmt: skip
    with _lab(release) as kubeconfig, ThreadPoolExecutor(processes) as pool:
        # Tests that disturb others, as they say themselves, run alone.
        alone = [test for test in tests if "[Serial]" in test.name]
        end = time.monotonic() + seconds
        running = [
            pool.submit(run_tests, program, shard, kubeconfig, seconds)
            for shard in shards([test for test in tests if test not in set(alone)], processes)
        ]
        found = [outcome for each in running for outcome in each.result()]
        if alone:
            found += run_tests(program, alone, kubeconfig, max(end - time.monotonic(), 60.0))
        return found


@contextlib.contextmanager
def _lab(release: str) -> Iterator[Path]:
    """A lab in a process of its own; yields its kubeconfig."""
    with tempfile.TemporaryDirectory(prefix="e2e-") as folder:
        lab = LabProcess(Path(folder), _FLEET, ("--kube-version", release))
        lab.start()
        try:
            yield lab.kubeconfig
        finally:
            lab.stop()


if __name__ == "__main__":
    sys.exit(main())
