"""Runs a real node for ten minutes: ``python -m tests.kube.node [SCENARIO …]``.

etcd, kube-apiserver, kube-scheduler and kube-controller-manager, a kubelet and a containerd that run containers with
runc, in Linux namespaces of their own; on this node run Allotment's image, its chart, and pods with claims. Each
printed line is an observation. Only the build results in ``~/.cache/allotment`` remain.

Needs Linux as root, Go, and Debian's runc, buildah, debootstrap, containernetworking-plugins, iptables and iproute2;
the first run also needs a network, and half an hour.

Exit status: 0 every expectation was met, 1 one was not, 3 nothing was tried because something is missing.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.kube_programs import programs
from bench.processes import ProcessEnded
from tests.clients import tools
from tests.kube import binaries
from tests.kube.node import images, isolation, scenarios
from tests.kube.node.cluster_node import running_node

_SKIPPED: Final = 3
_MODULE: Final = "tests.kube.node"


def main(words: Sequence[str]) -> int:
    """On the host: check the requirements, run :func:`inside` in new namespaces, and clean up."""
    if unknown := [word for word in words if word not in scenarios.SCENARIOS]:
        sys.stderr.write(f"no scenario {', '.join(unknown)}: known: {', '.join(scenarios.SCENARIOS)}\n")
        return 2
    if absent := isolation.missing_requirements(("go", *images.BUILD_TOOLS)):
        sys.stderr.write(f"skipped: not found: {', '.join(absent)}\n")
        return _SKIPPED
    try:
        binaries.ensure_programs()
        own = binaries.build_missing(binaries.NODE_PROGRAMS)
    except binaries.BuildError as unbuilt:
        sys.stderr.write(f"{unbuilt}\n")
        return unbuilt.status
    tools.fetch()
    archives = images.archives()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the cleanup runs then, too
    group = f"allotment-node-{os.getpid()}"
    # A short name, because socket paths start with it.
    folder = Path(tempfile.mkdtemp(prefix="node"))
    try:
        with isolation.control_group(group):
            place = [folder, own, group, *archives]
            return isolation.run_isolated(_MODULE, ["inside", *map(str, place), *words], folder)
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder)


def inside(folder: Path, own: Path, group: str, archives: Sequence[Path], words: Sequence[str]) -> int:
    """In the namespaces: start a cluster with its node and run the scenarios."""
    isolation.set_up(folder)
    found = programs()
    assert found is not None, "built before"
    start = time.monotonic()

    def report(text: str) -> None:
        first, *more = text.splitlines()
        lines = [f"[{time.monotonic() - start:4.0f} s] {first}", *(f"         {line}" for line in more)]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()

    try:
        with running_node(folder, found, own, group, archives) as node:
            report(node.kubectl("get", "nodes", "-o", "wide"))
            try:
                for name in words or scenarios.SCENARIOS:
                    report(f"--- {name}")
                    scenarios.SCENARIOS[name](node, report)
            except (AssertionError, RuntimeError):
                sys.stdout.write(node.state())
                raise
    except (AssertionError, RuntimeError, ProcessEnded) as error:
        sys.stderr.write(f"FAILED: {error}\n")
        return 1
    report("all expectations met")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        folder, own, group, base, allotment, *words = sys.argv[2:]
        sys.exit(inside(Path(folder), Path(own), group, [Path(base), Path(allotment)], words))
    sys.exit(main(sys.argv[1:]))
