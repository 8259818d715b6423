"""The command line of a driver program: ``run(driver)`` is a vendor's ``main``.

In a pod no options are necessary: the driver uses NODE_NAME and POD_UID, the kubelet's default folders, and the pod's
service account. In a lab (``allot up --kubelet-roots``) and in tests the folders are different.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.remote.kubeconfig import ClusterTarget, KubeconfigError
from allotment.cluster.remote.kubeconfig import target as default_target
from allotment.drivers.device_values import InvalidDevice
from allotment.drivers.driver import Driver, missing_members
from allotment.drivers.host import CheckpointLocked
from allotment.drivers.program import DriverOptions, default_options, run_until_signal
from allotment.kubelet_plugin.sockets import SocketError

_USER_ERRORS: Final = (StatusError, Unreachable, SocketError, CheckpointLocked, InvalidDevice, OSError)


def run(driver: Driver, arguments: Sequence[str] | None = None) -> None:
    """Run a node's driver until SIGTERM or SIGINT. ``arguments``: the command line, by default that of the process.

    Errors of the node, the folders or the cluster, InvalidDevice, and missing methods end the process with one line and
    exit status 1.
    """
    if missing := missing_members(driver):
        sys.exit(f"{type(driver).__name__}: missing {', '.join(missing)}: a driver has all members of drivers.Driver")
    try:
        options, target = parse_arguments(driver.name, sys.argv[1:] if arguments is None else arguments)
    except KubeconfigError as error:
        sys.exit(f"{driver.name}: {error}")
    try:
        run_until_signal(driver, options, target)
    except* _USER_ERRORS as errors:
        sys.exit(f"{driver.name}: {_first(errors)}")


def parse_arguments(name: str, arguments: Sequence[str]) -> tuple[DriverOptions, ClusterTarget]:
    """Return the options and the cluster of a driver. Raises KubeconfigError."""
    defaults = default_options()
    parser = argparse.ArgumentParser(
        description=f"Run the driver {name} on a node: publish its devices and prepare them for containers."
    )
    add = parser.add_argument
    add(
        "--node-name", "--node", dest="node", default=defaults.node, metavar="NAME",
        help="node name (default: NODE_NAME or the host name; here %(default)s)",
    )  # fmt: skip
    add(
        "--kubelet-root",
        type=Path,
        default=defaults.plugins.parent,
        metavar="DIR",
        help="kubelet directory (default: %(default)s)",
    )
    add(
        "--cdi-root",
        type=Path,
        default=defaults.cdi,
        metavar="DIR",
        help="directory for CDI specs (default: %(default)s)",
    )
    add(
        "--pod-uid",
        default=defaults.pod_uid,
        metavar="UID",
        help="UID of the driver's pod, for rolling updates (default: POD_UID)",
    )
    add(
        "--metadata",
        action="store_true",
        help="write files with device attributes for programs in containers (KEP-5304)",
    )
    add(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig file (default: KUBECONFIG, ~/.kube/config, or the service account)",
    )
    add("--context", default="", metavar="NAME", help="kubeconfig context (default: the current one)")
    parsed = parser.parse_args(arguments)
    root = parsed.kubelet_root.absolute()  # sent to the kubelet, which has another working directory
    cdi = parsed.cdi_root.absolute()
    options = DriverOptions(
        parsed.node, parsed.pod_uid, root / "plugins", root / "plugins_registry", cdi, parsed.metadata
    )
    return options, default_target([parsed.kubeconfig] if parsed.kubeconfig else (), parsed.context)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
