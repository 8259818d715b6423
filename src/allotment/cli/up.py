"""``allot up``: a Kubernetes-compatible control plane with simulated GPU nodes, on this machine, in one process."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from allotment.cli.mistakes import Mistake
from allotment.cli.release import features
from allotment.cli.screen import Screen, open_screen, shorten
from allotment.lab import kubeconfig
from allotment.lab.settings import Settings, fleet_of
from allotment.lab.state import DEFAULT_NAME, BadName, DataFolder, Register, Running, Status, checked_name, default_data

#: What kubectl users expect; only the default lab has it.
_PORT = 6443


def run(arguments: Namespace) -> int:
    """Be a lab until Ctrl-C, or (``--detach``) start one and return."""
    began = time.perf_counter()
    screen = open_screen()
    with mistakes(arguments.name):
        settings = _settings(arguments)
        register = Register()
        path = Path(arguments.kubeconfig) if arguments.kubeconfig else kubeconfig.usual_path()
        if arguments.detach:
            return _detach(arguments, settings, register, path, screen, began)
        from allotment.lab.up import Place
        from allotment.lab.up import run as run_lab

        live = screen.out.isatty()

        def ready(status: Status) -> None:
            announce(screen, status, time.perf_counter() - began)
            screen.line("Ctrl-C stops it." if live else "SIGINT or SIGTERM stops it.")
            screen.out.flush()

        def show(overview: object) -> None:
            screen.out.write("\r\x1b[K" + shorten(str(overview), screen.width or 80))
            screen.out.flush()

        log = Path(arguments.log) if arguments.log else None
        run_lab(settings, Place(register, path.absolute(), log), ready, show if live else None)
        screen.line(f"{chr(10) if live else ''}Lab {settings.name!r} has stopped.")
    return 0


def announce(screen: Screen, status: Status, seconds: float | None = None) -> None:
    """What a user needs to begin."""
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    screen.line(f"{screen.paint('Ready', 'green')}{took}: {status.url}")
    fleet = ", ".join(status.fleet) if status.fleet else "as it was" if status.data else "none"
    screen.line(f"  fleet    {fleet}")
    screen.line(f"  data     {status.data or 'in memory only: gone when it stops'}")
    screen.line(f"  kubectl  context {status.context!r} in {status.kubeconfig}, now the current one")


def _settings(arguments: Namespace) -> Settings:
    name = checked_name(arguments.name)
    data = None
    if not arguments.ephemeral:
        data = DataFolder(Path(arguments.data).absolute()) if arguments.data else default_data(name)
    fleet = fleet_of([word for group in arguments.fleet for word in group] if arguments.fleet else None)
    if fleet is None and (data is None or not data.database.exists()):
        from allotment.lab.fleet import USUAL

        fleet = USUAL
    if fleet:
        from allotment.fleet import parse_fleet

        parse_fleet(fleet)  # a mistake is told before anything is started
    if not arguments.speed > 0:
        raise Mistake(f"--speed: wanted a positive number, found {arguments.speed:g}")
    if not 0 <= arguments.port <= 65535:
        raise Mistake(f"--port: wanted 0 to 65535, found {arguments.port}")
    return Settings(
        name=name, fleet=fleet, data=data, host=arguments.host, tls=not arguments.http, speed=arguments.speed,
        port=arguments.port, preferred_port=_PORT if name == DEFAULT_NAME else 0,
        features=features(arguments.kube_version, arguments.feature_gates), without=_without(arguments.without),
    )  # fmt: skip


def _without(given: Sequence[str]) -> frozenset[str]:
    words = [word for text in given for word in text.split(",") if word]
    if not words:
        return frozenset()
    from allotment.lab.programs import UnknownProgram, left_out

    try:
        return left_out(words)
    except UnknownProgram as error:
        raise Mistake(f"--without: {error}") from None


def _detach(
    arguments: Namespace, settings: Settings, register: Register, path: Path, screen: Screen, began: float
) -> int:
    from allotment.lab.up import DidNotStart, Place, detach

    if register.runs(settings.name):
        raise Running(settings.name, register.status(settings.name))
    log = settings.data.log if settings.data else register.log(settings.name)
    if settings.data is not None:
        settings.data.make()
    words = [word for word in arguments.words if word != "--detach"]
    command = [sys.executable, "-m", "allotment.cli.main", *words, "--log", str(log)]
    try:
        status = detach(command, settings.name, Place(register, path, log), log)
    except DidNotStart as error:
        raise Mistake(str(error), f"its log: {error.log}") from None
    announce(screen, status, time.perf_counter() - began)
    screen.line(f"  log      {log}")
    stop = "allot down" if settings.name == DEFAULT_NAME else f"allot down {settings.name}"
    screen.line(f"{stop} stops it.")
    return 0


@contextmanager
def mistakes(name: str) -> Iterator[None]:
    """What can be wrong with starting and stopping, as users' mistakes."""
    try:
        yield
    except BadName as error:
        raise Mistake(str(error)) from None
    except Running as error:
        raise Mistake(str(error), "give another --name, or stop it with allot down") from None
    except kubeconfig.UnusableKubeconfig as error:
        raise Mistake(str(error), "repair it, or give another file with --kubeconfig") from None
    except OSError as error:
        if error.filename is not None:
            raise  # told with the name of the file
        raise Mistake(str(error)) from None
