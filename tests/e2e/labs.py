"""The labs that tests need: one with the features of the release, and one with those that it has off by default."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from allotment.model.features import GATES
from tests.e2e.containers import images_file
from tests.e2e.suite import E2ETest
from tests.storm.process import LabProcess

_FLEET: Final = "t4-4x-pcie:2"


@contextlib.contextmanager
def lab(release: str, tests: Iterable[E2ETest], *, containers: bool) -> Iterator[Path]:
    """A lab in a process of its own, with the features that these tests name; yields its kubeconfig.

    ``containers``: whether it runs real ones. Raises BuildError if these cannot be built.
    """
    with tempfile.TemporaryDirectory(prefix="e2e-") as text:
        folder = Path(text)
        runtime = ("--runtime", "oci", "--images", str(images_file(folder, release))) if containers else ()
        process = LabProcess(folder, _FLEET, ("--kube-version", release, *features(release, tests), *runtime))
        process.start()
        try:
            yield process.kubeconfig
        finally:
            process.stop()


def features(release: str, tests: Iterable[E2ETest]) -> Sequence[str]:
    """Return the options of ``up`` that turn on the features of tests for which the release has them off."""
    named = {gate for test in tests if test.is_off_by_default for gate in test.gates}
    gates = sorted(gate for gate in named if release in GATES.get(gate, {}))
    if not gates:
        return ()
    return "--feature-gates", ",".join(f"{gate}=true" for gate in gates), "--runtime-config", "api/all=true"
