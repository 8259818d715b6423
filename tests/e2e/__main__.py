"""Run Kubernetes' own end-to-end tests against a lab: ``python -m tests.e2e [RELEASE…]`` (``make test-e2e``).

The program is built from Kubernetes' published module on first use (``tests.kube.binaries``). By default these are the
conformance tests of the groups that ``exclusions.toml`` names and the tests of DRA's control plane; excluded are those
that need real containers, networks or volumes, each with its reason. ``--focus`` selects others by a regular
expression. The last lines are a table by group; the exit status is 1 if a test failed that is not excluded.

As root with crun or runc and a static busybox, the pods run in real containers, so that fewer tests are excluded.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from bench.kube_programs import RELEASES, cache
from tests.e2e.containers import lacking
from tests.e2e.exclusions import Exclusions
from tests.e2e.labs import lab
from tests.e2e.report import table
from tests.e2e.suite import E2EError, E2ETest, Outcome, run_tests, shards, tests_of
from tests.kube.binaries import AGNHOST, E2E_PROGRAM, SKIPPED, BuildError, build_missing


def main() -> int:
    """Run the tests of each release, and print what failed and a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.e2e", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"{' or '.join(RELEASES)} (all)")
    parser.add_argument("--focus", help="regular expression that selects tests by name")
    parser.add_argument("--subset", action="store_true", help="run a part that takes less than four minutes")
    parser.add_argument("--simulated", action="store_true", help="run no real containers")
    parser.add_argument("--cached", action="store_true", help="build nothing: end if the programs have not been built")
    parser.add_argument("--excluded", action="store_true", help="run the excluded tests, too: some may pass by now")
    parser.add_argument("--processes", type=int, default=8, help="test programs at the same time (%(default)s)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="time limit for a release (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes to a file")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.releases if name not in RELEASES]
    if unknown:
        parser.error(f"RELEASE: expected {' or '.join(RELEASES)}, found {unknown[0]}")
    lacks = "" if arguments.simulated else lacking()
    containers = not arguments.simulated and not lacks
    if lacks:
        sys.stdout.write(f"Pods are simulated: {lacks}.\n")
    exclusions = Exclusions.read(containers=containers)
    focus = arguments.focus or (exclusions.subset if arguments.subset else exclusions.focus)
    failed = False
    found: dict[str, list[Outcome]] = {}
    for release in arguments.releases or RELEASES:
        if arguments.cached and (missing := _not_built(release, containers=containers)):
            sys.stdout.write(f"NOT TESTED by Kubernetes' end-to-end tests {release}: {missing} has not been built\n")
            continue
        try:
            program = build_missing((E2E_PROGRAM,), release) / E2E_PROGRAM
            tests = tests_of(program, focus)
            excluded = [test for test in tests if exclusions.reason(test)] if not arguments.excluded else []
            chosen = [test for test in tests if test not in set(excluded)]
            found[release] = _outcomes(program, release, chosen, arguments.processes, arguments.seconds, containers)
        except BuildError as error:
            sys.stderr.write(f"{error}\n")
            return 0 if error.status == SKIPPED else 1
        except E2EError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        for outcome in found[release]:
            if outcome.failure:
                # A slow machine does not reach all of the subset; that shows no defect.
                failed |= not (arguments.subset and outcome.is_unfinished)
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
    program: Path, release: str, tests: Sequence[E2ETest], processes: int, seconds: float, containers: bool
) -> list[Outcome]:  # fmt: skip
    """Run tests on several labs, one after the other.

    Those of features that are off by default get a lab with these features. Those of DRA need no containers: their
    drivers would be pods that use the files of a real kubelet.
    """
    end = time.monotonic() + seconds
    found = []
    for simulated, off in product((False, True), repeat=2):
        chosen = [test for test in tests if (test.is_about_devices, test.is_off_by_default) == (simulated, off)]
        if chosen:
            with lab(release, chosen, containers=containers and not simulated) as kubeconfig:
                found += _on_lab(program, kubeconfig, chosen, processes, end)
    return found


def _not_built(release: str, *, containers: bool) -> str:
    """The first of the required programs that has not been built; empty if all have."""
    names = (E2E_PROGRAM, AGNHOST) if containers else (E2E_PROGRAM,)
    return next((name for name in names if not (cache(release) / name).is_file()), "")


def _on_lab(
    program: Path, kubeconfig: Path, tests: Sequence[E2ETest], processes: int, end: float
) -> list[Outcome]:  # fmt: skip
    def run(chosen: Sequence[E2ETest]) -> list[Outcome]:
        return run_tests(program, chosen, kubeconfig, max(end - time.monotonic(), 60.0))

    together = [test for test in tests if not test.is_serial]
    alone = [test for test in tests if test.is_serial]
    with ThreadPoolExecutor(processes) as pool:
        found = [outcome for each in pool.map(run, shards(together, processes)) for outcome in each]
        return found + (run(alone) if alone else [])


if __name__ == "__main__":
    sys.exit(main())
