"""``python -m tests.planted``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.planted.suites import FAULTS, NotTested


def main() -> int:
    """Plant each fault, and print what was noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("--fault", choices=list(FAULTS), help="only this fault")
    arguments = parser.parse_args()
    names = [arguments.fault] if arguments.fault else list(FAULTS)
    missed = 0
    for name in names:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            try:
                report = FAULTS[name].find(Path(folder).resolve())
            except NotTested as error:
                sys.stdout.write(f"NOT TESTED  {name}: {error}\n")
                continue
        noticed = bool(report) and FAULTS[name].noticed in report
        missed += not noticed
        text = " | ".join(report.splitlines()[:3])[:160]
        verdict = "noticed" if noticed else "MISSED"
        sys.stdout.write(f"{verdict:<10}  {name} ({time.monotonic() - start:.0f} s): {text}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(names) - missed} of {len(names)} planted faults noticed\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
