"""``allot web``: serves the page of a cluster on this computer until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from allotment.cli.inputs.catalogs import checked_catalog
from allotment.cli.inputs.watched import NOTHING, watched_cluster_or_playground
from allotment.cli.output.browser import open_browser
from allotment.cli.output.console import Screen, open_screen, print_notes
from allotment.components.certificate import Certificate, CertificateError
from allotment.components.settings import Address
from allotment.errors import InputError
from allotment.extras import require

if TYPE_CHECKING:
    from allotment.watched.cluster import WatchedCluster
    from allotment.web.options import WebOptions

#: The port that is tried first, so that a bookmark keeps working.
PORT: Final = 8780


def run(arguments: Namespace) -> int:
    """Serve the page until SIGINT or SIGTERM; return 0."""
    require("allot web", "web")
    screen = open_screen()
    options = options_of(arguments)
    watched = watched_cluster_or_playground(arguments)
    if watched.view().place == "none" and not arguments.playground:
        print_notes([NOTHING])
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(arguments, screen, watched, options))
    if not arguments.with_parent:
        screen.line("The page is closed.")
    return 0


def options_of(arguments: Namespace) -> WebOptions:
    """Return the options of the server. Raises InputError."""
    from allotment.web.options import WebOptions, base_path

    certificate, key = (Path(file) if file else None for file in (arguments.certificate, arguments.key))
    if certificate is not None and key is not None:
        try:
            Certificate(certificate, key)
        except CertificateError as error:
            raise InputError(f"--certificate, --key: {error}") from None
    elif certificate is not None or key is not None:
        raise InputError("--certificate and --key: specify both", "a certificate requires its key")
    elif not Address(arguments.address, 0).local:
        raise InputError(
            f"--address {arguments.address}: requires --certificate and --key: the token could be read on the way",
            "specify both files; or forward a port: ssh -L 8780:localhost:8780 HOST",
        )
    if arguments.port is not None and not 0 <= arguments.port <= 65535:
        raise InputError(f"--port: expected 0 to 65535, found {arguments.port}")
    return WebOptions(
        host=arguments.address,
        port=_free_port(arguments.address) if arguments.port is None else arguments.port,
        certificate=certificate,
        key=key,
        allowed_hosts=tuple(arguments.allowed_host),
        allowed_origins=tuple(arguments.allow_origin),
        catalog=checked_catalog(arguments.catalog),
        base_path=base_path(arguments.base_path),
    )


def _free_port(host: str) -> int:
    """Return the usual port if it is free, otherwise 0, which selects another."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial, suppress(OSError):
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind((host, PORT))
        return PORT
    return 0


async def _serve(arguments: Namespace, screen: Screen, watched: WatchedCluster, options: WebOptions) -> None:
    from allotment.web.server import serve

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows: Ctrl-C arrives as KeyboardInterrupt
            loop.add_signal_handler(number, stop.set)
    if arguments.with_parent:
        Thread(target=_wait_for_parent, args=(lambda: loop.call_soon_threadsafe(stop.set),), daemon=True).start()

    def ready(address: str) -> None:
        _announce(arguments, screen, watched.view().name, address)

    try:
        await serve(watched, options, ready, stop)
    except OSError as error:
        raise _not_listening(options, error) from None


def _announce(arguments: Namespace, screen: Screen, name: str, address: str) -> None:
    if arguments.with_parent:
        screen.line(address)
    else:
        screen.line(f"{name}: {screen.paint(address, 'cyan')}")
        opened = not arguments.no_browser and open_browser(address)
        screen.line("Opened in the browser. Press Ctrl-C to end." if opened else "Press Ctrl-C to end.")
    screen.out.flush()


def _wait_for_parent(end: Callable[[], object]) -> None:
    """End when the process that started this one closes its pipe, as it does when it ends in any way."""
    with suppress(OSError, ValueError):
        # Not sys.stdin.buffer: Python cannot end while a daemon thread holds its lock, if this process ends first.
        while os.read(sys.stdin.fileno(), 4096):
            pass
    with suppress(RuntimeError):  # the loop has ended already
        end()


def _not_listening(options: WebOptions, error: OSError) -> InputError:
    if error.errno == errno.EADDRINUSE:
        return InputError(
            f"--port: {options.port} is already in use", "choose another one, or omit it to use a free port"
        )
    if error.errno in (errno.EADDRNOTAVAIL, errno.EACCES):
        return InputError(f"--address {options.host}, --port {options.port}: {(error.strerror or str(error)).lower()}")
    raise error
