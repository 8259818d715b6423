"""``allot up``: starts a lab, a Kubernetes-compatible control plane with simulated GPU nodes in one process."""

from __future__ import annotations

import errno
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import replace

from allotment.api.objects.releases import features
from allotment.cli.live.lab_page import lab_page, program
from allotment.cli.output.browser import open_browser
from allotment.cli.output.console import Screen, folded, from_home, open_screen, shorten, width_of
from allotment.errors import InputError
from allotment.extras import require
from allotment.lab import kubeconfig
from allotment.lab.runtimes import NoRuntime
from allotment.lab.secret_files import DamagedFile
from allotment.lab.settings import Settings, checked_speed, fleet_of, made_roots
from allotment.lab.state import (
    DEFAULT_NAME,
    DataFolder,
    InvalidName,
    LabRunningError,
    Register,
    Status,
    checked_name,
    default_data,
)

if TYPE_CHECKING:
    from allotment.lab.autoscaling import Autoscale
    from allotment.lab.up import DidNotStart

#: The usual port of API servers, used only by the default lab.
_PORT = 6443
#: The column of the values in the announcement.
_INDENT = 11


def run(arguments: Namespace) -> int:
    """Run a lab until Ctrl-C, or with ``--detach`` start one and return."""
    start = time.perf_counter()
    screen = open_screen()
    require("running a lab", "lab", *(("web",) if arguments.web else ()))
    with mistakes(arguments.name):
        settings = _settings(arguments)
        if refusal := _refused_versions(settings):
            print(f"error: {refusal}", file=sys.stderr)
            return 1  # as kube-apiserver
        register = Register()
        path = Path(arguments.kubeconfig) if arguments.kubeconfig else kubeconfig.default_path()
        if arguments.detach:
            return _detach(arguments, settings, register, path, screen, start)
        from allotment.lab.up import LabLocation
        from allotment.lab.up import run as run_lab

        live = screen.out.isatty()

        def ready(status: Status) -> None:
            announce(screen, status, settings.fleet is None, time.perf_counter() - start)
            if arguments.web:
                serving.enter_context(lab_page(path, status.context, partial(_with_page, screen, register, status)))
            screen.line("Press Ctrl-C to stop it." if live else "To stop it, send SIGINT or SIGTERM.")
            screen.out.flush()

        def show(overview: object) -> None:
            screen.out.write("\r\x1b[K" + fitted(str(overview), screen.out))
            screen.out.flush()

        log = Path(arguments.log) if arguments.log else None
        with ExitStack() as serving:
            run_lab(settings, LabLocation(register, path.absolute(), log), ready, show if live else None)
        screen.line(f"{chr(10) if live else ''}Lab {settings.name!r} stopped.")
    return 0


def fitted(text: str, out: TextIO) -> str:
    """Truncate a progress line to the present width of the terminal."""
    return shorten(text, width_of(out) or 80)


def announce(screen: Screen, status: Status, as_before: bool, seconds: float) -> None:
    """Print how to use the lab. ``as_before``: the machines are those of the stored data."""
    screen.line(f"{screen.paint('Ready', 'green')} in {seconds:.1f} s: {status.url}")
    machines = ", ".join(status.fleet)
    rows = [
        ("fleet", ": ".join(filter(None, ("as in the last run" if as_before else "", machines))) or "none"),
        ("data", from_home(status.data) if status.data else "only in memory: lost when the lab stops"),
        ("kubectl", f"context {status.context!r} in {from_home(status.kubeconfig)}, now the current context"),
        ("log", from_home(status.log) if status.log else ""),
    ]
    for title, text in rows:
        for number, line in enumerate(folded(text, screen.width and screen.width - _INDENT) if text else ()):
            # Continuation lines are indented.
            screen.line(f"  {title:<9}{line}" if not number else f"{'':{_INDENT}}{line.strip()}")


def _settings(arguments: Namespace) -> Settings:
    name = checked_name(arguments.name)
    data = None
    if not arguments.ephemeral:
        data = DataFolder(Path(arguments.data_dir).absolute()) if arguments.data_dir else default_data(name)
        if data.path.exists() and not data.path.is_dir():
            raise InputError(f"--data-dir: {data.path} is not a directory")
    fleet = fleet_of([word for group in arguments.fleet for word in group] if arguments.fleet else None)
    if fleet is None and (data is None or not data.database.exists()):
        from allotment.lab.fleet import DEFAULT_FLEET

        fleet = () if arguments.autoscale else DEFAULT_FLEET
    if fleet:
        from allotment.fleet import parse_fleet

        parse_fleet(fleet)  # report invalid options before anything is started
    if not 0 <= arguments.port <= 65535:
        raise InputError(f"--port: expected 0 to 65535, found {arguments.port}")
    known = features(arguments.kube_version, arguments.feature_gates)
    return Settings(
        name=name, fleet=fleet, data=data, host=arguments.bind_address, tls=not arguments.http,
        speed=checked_speed(arguments.speed), port=arguments.port, preferred_port=_PORT if name == DEFAULT_NAME else 0,
        features=known, runtime_config=tuple(arguments.runtime_config), without=_without(arguments.disable),
        runtime=arguments.runtime, images=_images(arguments),
        unknown_commands=arguments.unknown_commands == "succeed",
        roots=made_roots(arguments.kubelet_roots) if arguments.kubelet_roots else None, autoscale=_autoscale(arguments),
    )  # fmt: skip


def _refused_versions(settings: Settings) -> str:
    """Return the error for an invalid ``--runtime-config``, as kube-apiserver's, otherwise an empty string."""
    if not settings.runtime_config:
        return ""
    from allotment.apiserver.runtime_config import RuntimeConfigError
    from allotment.lab.served_versions import lab_kinds

    try:
        lab_kinds(settings.features, settings.runtime_config)
    except RuntimeConfigError as error:
        return str(error)
    return ""


def _autoscale(arguments: Namespace) -> Autoscale | None:
    """Return the autoscaling settings of the lab."""
    if not arguments.autoscale:
        for option, given in (("--catalog", arguments.catalog), ("--cloud-fault", arguments.cloud_fault)):
            if given:
                raise InputError(f"{option}: requires --autoscale")
        return None
    from allotment.cli.autoscale import faults_of
    from allotment.cli.inputs.catalogs import selected_types
    from allotment.cli.inputs.durations import duration
    from allotment.lab.autoscaling import Autoscale

    types = selected_types(arguments.catalog)
    return Autoscale(
        types, faults_of(arguments.cloud_fault, types),
        seconds=duration("--provisioning-delay", arguments.provisioning_delay),
        consolidation=arguments.consolidate, budget=arguments.disruption_budget,
        consolidate_after=duration("--consolidate-after", arguments.consolidate_after),
    )  # fmt: skip


def _images(arguments: Namespace) -> Path | None:
    """Return the file of images; it is read to report errors before anything is started."""
    if arguments.images is None:
        return None
    if arguments.runtime == "simulated":
        raise InputError("--images: not allowed with simulated containers", "add --runtime process or --runtime oci")
    from allotment.node.runtimes.images import read_images

    path = Path(arguments.images).absolute()
    read_images(path)
    return path


def _without(given: Sequence[str]) -> frozenset[str]:
    words = [word for text in given for word in text.split(",") if word]
    if not words:
        return frozenset()
    from allotment.lab.programs import UnknownProgram, excluded_programs

    try:
        return excluded_programs(words)
    except UnknownProgram as error:
        raise InputError(f"--disable: {error}") from None


def _detach(
    arguments: Namespace, settings: Settings, register: Register, path: Path, screen: Screen, start: float
) -> int:
    from allotment.lab.up import DidNotStart, LabLocation, detach

    if register.runs(settings.name):
        raise LabRunningError(settings.name, register.status(settings.name))
    log = settings.data.log if settings.data else register.log(settings.name)
    if settings.data is not None:
        settings.data.make()
    words = [word for word in arguments.words if word != "--detach"]
    command = [sys.executable, *program(), *words, "--log", str(log)]
    try:
        place = LabLocation(register, path, log)
        status = detach(command, settings.name, place, log, lambda status: status.web is not None or not arguments.web)
    except DidNotStart as error:
        raise _not_started(error) from None
    announce(screen, status, settings.fleet is None, time.perf_counter() - start)
    if arguments.web:
        _show_page(screen, status.web or "", log)
    stop = "allot down" if settings.name == DEFAULT_NAME else f"allot down {settings.name}"
    screen.line(f"To stop it: {stop}")
    return 0


def _with_page(screen: Screen, register: Register, status: Status, address: str) -> None:
    """Record the address of the page, and show it."""
    register.write(replace(status, web=address))
    if status.log is None:  # otherwise, the process that waits shows it
        _show_page(screen, address)


def _show_page(screen: Screen, address: str, log: Path | None = None) -> None:
    where = f"; see {from_home(log)}" if log is not None else ""
    screen.line(f"  {'page':<9}{address or f'could not be served{where}'}")
    screen.out.flush()
    if address:
        open_browser(address)


def _not_started(error: DidNotStart) -> InputError:
    """Return the error of the background process: its last message and hint."""
    lines = error.why.splitlines()
    begins = [number for number, line in enumerate(lines) if line.startswith("allot: ")]
    first, *more = lines[begins[-1] :] if begins else [error.why]
    advice = [line.strip() for line in more] + [f"log: {from_home(error.log)}"]
    return InputError(f"the lab did not start: {first.removeprefix('allot: error: ')}", "; ".join(advice))


@contextmanager
def mistakes(name: str) -> Iterator[None]:
    """Convert errors of starting and stopping to InputError."""
    try:
        yield
    except InvalidName as error:
        raise InputError(str(error)) from None
    except LabRunningError as error:
        raise InputError(str(error), "use a different --name, or stop the lab with allot down") from None
    except kubeconfig.UnusableKubeconfig as error:
        raise InputError(str(error), "fix the file, or use a different one with --kubeconfig") from None
    except DamagedFile as error:
        raise InputError(error.problem, error.advice) from None
    except NoRuntime as error:
        raise InputError(str(error), "install it (apt-get install crun), or use --runtime process") from None
    except OSError as error:
        if error.filename is not None or isinstance(error, BrokenPipeError):
            raise  # reported with the file name; or the reader of standard output has closed it
        from allotment.apiserver.storage.database_file import DamagedDatabase

        if isinstance(error, DamagedDatabase):
            raise InputError(str(error), error.advice) from None
        busy = "use a different --port, or omit it to use a free port"
        raise InputError(error.strerror or str(error), busy if error.errno == errno.EADDRINUSE else "") from None
