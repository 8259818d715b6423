"""A vendor's ``main``: the program of one driver, told on its command line where it runs.

In a pod nothing has to be said: NODE_NAME and POD_UID, the kubelet's own folders, the pod's service account. In a lab
(``allot up --kubelet-roots``) and in tests the folders are others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.kubeconfig import Target, UnusableKubeconfig
from allotment.cluster.remote.kubeconfig import target as usual_target
from allotment.drivers.driver import Driver
from allotment.drivers.host import CheckpointLocked
from allotment.drivers.program import DriverOptions, default_options, run_until_signal
from allotment.kubelet_plugin.sockets import SocketError

_USER_ERRORS: Final = (StatusError, Unreachable, SocketError, CheckpointLocked, OSError)


def run(driver: Driver, arguments: Sequence[str] | None = None) -> None:
    """Be the driver of a node until SIGTERM or SIGINT. ``words``: the command line; this program's by default.

    What is wrong with the node, the folders or the cluster ends it with one line, exit status 1.
    """
    try:
        place, target = parse_arguments(driver.name, sys.argv[1:] if arguments is None else arguments)
    except UnusableKubeconfig as error:
        sys.exit(f"{driver.name}: {error}")
    try:
        run_until_signal(driver, place, target)
    except* _USER_ERRORS as errors:
        sys.exit(f"{driver.name}: {_first(errors)}")


def parse_arguments(name: str, words: Sequence[str]) -> tuple[DriverOptions, Target]:
    """Where a driver runs, and the way to its cluster. Raises UnusableKubeconfig."""
    usual = default_options()
    parser = argparse.ArgumentParser(description=f"The driver {name} of one node: publishes and prepares its devices.")
    add = parser.add_argument
    add("--node", default=usual.node, metavar="NAME", help="the node's name (default: NODE_NAME, or else %(default)s)")
    add("--kubelet-root", type=Path, default=usual.plugins.parent, metavar="FOLDER", help="(%(default)s)")
    add("--cdi-root", type=Path, default=usual.cdi, metavar="FOLDER", help="for CDI specs (%(default)s)")
    add("--pod-uid", default=usual.pod_uid, metavar="UID", help="of its own pod, for rolling updates (POD_UID)")
    add("--metadata", action="store_true", help="have programs read of their devices in files (KEP-5304)")
    add("--kubeconfig", type=Path, metavar="FILE", help="(default: KUBECONFIG, ~/.kube, or the service account)")
    add("--context", default="", metavar="NAME", help="which cluster (default: the current context)")
    given = parser.parse_args(words)
    root = given.kubelet_root.absolute()  # the kubelet is told where, and has a working folder of its own
    cdi = given.cdi_root.absolute()
    place = DriverOptions(given.node, given.pod_uid, root / "plugins", root / "plugins_registry", cdi, given.metadata)
    return place, usual_target([given.kubeconfig] if given.kubeconfig else (), given.context)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
