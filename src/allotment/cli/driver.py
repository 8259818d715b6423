"""``allot driver run``: runs one of Allotment's drivers on a node."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from allotment.cli.live.connection import cluster_errors, way_to
from allotment.errors import InputError
from allotment.extras import require

if TYPE_CHECKING:
    from allotment.drivers.driver import Driver
    from allotment.drivers.program import DriverOptions
    from allotment.fleet import FleetMachine

_FORM = "[GPUSx]HARDWARE[/MODE]"
_FLEET = "see allot fleet list"


def run_driver(arguments: Namespace) -> int:
    """Run the driver of this node until SIGTERM or SIGINT."""
    require("allot driver run", *extras_of(arguments))
    driver, place = driver_of(arguments)
    way = way_to(arguments)
    from allotment.drivers.host import CheckpointLocked
    from allotment.drivers.program import run_until_signal
    from allotment.kubelet_plugin.sockets import SocketError

    with cluster_errors(way):
        try:
            run_until_signal(driver, place, way)
        except ExceptionGroup as errors:
            # Of several errors, report the first that the user can fix.
            for error in _each(errors):
                if isinstance(error, SocketError | CheckpointLocked):
                    raise InputError(str(error)) from None
                if isinstance(error, OSError) and error.filename is not None:
                    raise InputError(f"{error.filename}: {error.strerror}") from None
            raise
    return 0


def extras_of(arguments: Namespace) -> tuple[str, ...]:
    """Return the required extras: the vendor's, or for simulated hardware the framework's."""
    return ("drivers",) if arguments.simulate else (arguments.vendor,)


def driver_of(arguments: Namespace) -> tuple[Driver, DriverOptions]:
    """Return the driver and its environment. Raises InputError."""
    from allotment.drivers.program import DriverOptions, default_options
    from allotment.drivers.vendors import HOST_DRIVERS

    defaults, kubelet = default_options(), Path(arguments.kubelet_root).absolute()
    place = DriverOptions(
        arguments.node_name or defaults.node, arguments.pod_uid or defaults.pod_uid, kubelet / "plugins",
        kubelet / "plugins_registry", Path(arguments.cdi_root).absolute(), arguments.metadata,
    )  # fmt: skip
    if arguments.simulate:
        return _pretended(arguments, place), place
    on_host = Path(arguments.driver_root_on_host) if arguments.driver_root_on_host else None
    return HOST_DRIVERS[arguments.vendor].create(
        place.node, arguments.mode, Path(arguments.driver_root), on_host
    ), place


def _pretended(arguments: Namespace, place: DriverOptions) -> Driver:
    from allotment.drivers.host import read_boot_id
    from allotment.drivers.simulation import state_folder
    from allotment.drivers.vendors import DRIVERS_OF, host_simulation

    if arguments.driver_root != "/" or arguments.driver_root_on_host:
        raise InputError("--driver-root: not allowed with --simulate, which uses no hardware", "omit it")
    machine = _machine(arguments, place.node)
    folder = place.plugins / DRIVERS_OF[arguments.vendor][0] / "simulated"
    try:
        return host_simulation(machine, state_folder(folder, read_boot_id(), machine.form))
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}") from None


def _machine(arguments: Namespace, node: str) -> FleetMachine:
    """Return the hardware to simulate. Raises InputError."""
    from allotment.fleet import FleetError, parse_fleet

    requested = form = arguments.simulate.strip()
    if arguments.mode:
        if "/" in requested:
            raise InputError(
                f"--simulate {requested} and --mode {arguments.mode}: specify the mode only once",
                f"--simulate {requested.partition('/')[0]}/{arguments.mode}",
            )
        form = f"{requested}/{arguments.mode}"
    try:
        machine = parse_fleet([form])[0]
    except FleetError as error:
        problem = error.problem.removeprefix(f"fleet entry {form!r}: ")
        raise InputError(f"--simulate: {problem}", error.hint or _FLEET) from None
    # --fleet also accepts several machines, and names.
    if machine.form != form:
        raise InputError(f"--simulate: expected {_FORM}, for this node, found {requested!r}", "8xa100-40gb/dynamic-mig")
    vendor = machine.hardware.accelerator.vendor
    if vendor != arguments.vendor:
        raise InputError(
            f"--simulate: expected hardware from {arguments.vendor}, found {requested!r} from {vendor}",
            f"allot {_command(arguments)} {vendor} --simulate {requested}" if vendor in ("amd", "nvidia") else _FLEET,
        )
    return replace(machine, node=node)


def _command(arguments: Namespace) -> str:
    return "run driver" if getattr(arguments, "component", "") else "driver run"


def _each(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _each(error)
        else:
            yield error
