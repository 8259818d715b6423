"""``allot driver run``: one of our drivers as a program of a node."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from allotment.cli.live.connection import told, way_to
from allotment.cli.mistakes import Mistake

if TYPE_CHECKING:
    from allotment.drivers.driver import Driver
    from allotment.drivers.program import Place

_INSTALL = "pip install 'allotment[lab,drivers,nvidia]'"


def run_driver(arguments: Namespace) -> int:
    """Drive this node's devices until SIGTERM or SIGINT."""
    driver, place = driver_of(arguments)
    way = way_to(arguments)
    from allotment.drivers.host import Held
    from allotment.drivers.program import run_at
    from allotment.plugin.sockets import SocketUnusable

    with told(way):
        try:
            run_at(driver, place, way)
        except ExceptionGroup as errors:
            # Of what went wrong at once, the first that its user can do something about.
            for one in _each(errors):
                if isinstance(one, SocketUnusable | Held):
                    raise Mistake(str(one)) from None
                if isinstance(one, OSError) and one.filename is not None:
                    raise Mistake(f"{one.filename}: {one.strerror}") from None
            raise
    return 0


def driver_of(arguments: Namespace) -> tuple[Driver, Place]:
    """The driver, and where it runs. Raises Mistake."""
    try:
        from allotment.drivers.program import Place, usual_place
        from allotment.drivers.vendors import ON_HOST
    except ModuleNotFoundError as error:
        raise Mistake(f"{error.name} is not installed, and a driver talks to kubelets by it", _INSTALL) from None
    usual, kubelet = usual_place(), Path(arguments.kubelet_root).absolute()
    place = Place(
        arguments.node or usual.node, arguments.pod_uid or usual.pod_uid, kubelet / "plugins",
        kubelet / "plugins_registry", Path(arguments.cdi_root).absolute(), arguments.metadata,
    )  # fmt: skip
    on_host = Path(arguments.driver_root_on_host) if arguments.driver_root_on_host else None
    return ON_HOST[arguments.vendor].make(place.node, arguments.mode, Path(arguments.driver_root), on_host), place


def _each(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _each(error)
        else:
            yield error
