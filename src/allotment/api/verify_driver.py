"""``verify_driver``: whether a driver does what kubelets expect."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from allotment.api.cluster import Cluster, cluster_given
from allotment.errors import InputError
from allotment.extras import require

if TYPE_CHECKING:
    from allotment.drivers.verify.report import VerifyReport


def verify_driver(
    socket: str | PathLike[str],
    cluster: Cluster | None = None,
    *,
    command: str = "",
    node_name: str = "",
    device_class: str = "",
    cdi_roots: Sequence[str | PathLike[str]] = (),
) -> VerifyReport:
    """Call a driver as a kubelet does, and return whether it meets a kubelet's expectations.

    ``socket``: one of the driver's sockets, ``NAME-reg.sock`` or ``dra.sock``. ``cluster``: the running cluster that
    the driver publishes to, by default that of a lab or the current context; the checks create a namespace, a pod and
    claims in it, and delete them. ``command``: starts the driver, for the checks that restart and kill it.
    ``node_name``: by default the node of the driver's slices. ``device_class``: the DeviceClass to request, by default
    any. ``cdi_roots``: folders of CDI specs, by default ``/etc/cdi`` and ``/var/run/cdi``.

    Raises InputError if no check can run, for example without a driver at the socket, StatusError and Unreachable.
    """
    require("verifying a driver", "drivers")
    from allotment.api.clusters.live import LiveSource
    from allotment.drivers.verify.observer import RunObserver
    from allotment.drivers.verify.run import VerifiedDriver, run

    source = cluster_given(cluster, Cluster.live).source
    if not isinstance(source, LiveSource):
        raise InputError("expected a running cluster, to which the driver publishes its devices", argument="cluster")
    roots = (cdi_roots,) if isinstance(cdi_roots, str) else cdi_roots
    driver = VerifiedDriver(Path(socket), command, node_name, device_class, tuple(map(Path, roots)))
    return source.run(lambda client, _: run(client, driver, RunObserver()))
