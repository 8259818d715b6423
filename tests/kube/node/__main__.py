"""A real node for ten minutes: ``python -m tests.kube.node [STORY …]``.

etcd, kube-apiserver, kube-scheduler and kube-controller-manager, a kubelet and a containerd that run containers with
runc, in a machine of their own inside this one; on it our image, our chart, and pods with claims. Each line printed is
something that was seen. Nothing is left behind but what was built, in ``~/.cache/allotment``.

Needs Linux as root, Go, and Debian's runc, buildah, debootstrap, containernetworking-plugins, iptables and iproute2;
the first time also a network, and half an hour.

Exit status: 0 all was as it should be, 1 it was not, 3 nothing was tried, because something is missing.
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
from bench.processes import Ended
from tests.clients import tools
from tests.kube import binaries
from tests.kube.node import apart, images, stories
from tests.kube.node.running import running

_SKIPPED: Final = 3
_MODULE: Final = "tests.kube.node"


def main(words: Sequence[str]) -> int:
    """Outside: see that everything is there, make the machine, and clean up behind it."""
    if unknown := [word for word in words if word not in stories.STORIES]:
        sys.stderr.write(f"no story {', '.join(unknown)}: known: {', '.join(stories.STORIES)}\n")
        return 2
    if absent := apart.lacking(("go", *images.MAKERS)):
        sys.stderr.write(f"skipped: not here: {', '.join(absent)}\n")
        return _SKIPPED
    try:
        binaries.brought()
        own = binaries.built(binaries.OF_NODES)
    except binaries.Unbuilt as unbuilt:
        sys.stderr.write(f"{unbuilt}\n")
        return unbuilt.status
    tools.fetch()
    archives = images.archives()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it is cleaned up then, too
    group = f"allotment-node-{os.getpid()}"
    # Sockets are below it: a short name.
    folder = Path(tempfile.mkdtemp(prefix="node"))
    try:
        with apart.groups(group):
            place = [folder, own, group, *archives]
            return apart.run_apart(_MODULE, ["inside", *map(str, place), *words], folder)
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder)


def inside(folder: Path, own: Path, group: str, archives: Sequence[Path], words: Sequence[str]) -> int:
    """In the machine: a cluster, its node, and the stories."""
    apart.furnish(folder)
    found = programs()
    assert found is not None, "they were brought"
    began = time.monotonic()

    def told(text: str) -> None:
        first, *more = text.splitlines()
        lines = [f"[{time.monotonic() - began:4.0f} s] {first}", *(f"         {line}" for line in more)]
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()

    try:
        with running(folder, found, own, group, archives) as node:
            told(node.kubectl("get", "nodes", "-o", "wide"))
            try:
                for name in words or stories.STORIES:
                    told(f"--- {name}")
                    stories.STORIES[name](node, told)
            except (AssertionError, RuntimeError):
                sys.stdout.write(node.state())
                raise
    except (AssertionError, RuntimeError, Ended) as error:
        sys.stderr.write(f"NOT AS IT SHOULD BE: {error}\n")
        return 1
    told("all as it should be")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        folder, own, group, base, ours, *words = sys.argv[2:]
        sys.exit(inside(Path(folder), Path(own), group, [Path(base), Path(ours)], words))
    sys.exit(main(sys.argv[1:]))
