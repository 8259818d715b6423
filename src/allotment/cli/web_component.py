"""``allot run web``: the page as a component of a cluster, which visitors use with their own permissions."""

from __future__ import annotations

import logging
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from allotment.cli.inputs.catalogs import checked_catalog
from allotment.cli.inputs.clusters import live_cluster
from allotment.cluster.program import Program, ProgramContext
from allotment.components import registry
from allotment.components.component import Component
from allotment.components.http_server import AddressUnavailable
from allotment.components.settings import address
from allotment.errors import InputError
from allotment.model.features import Features

if TYPE_CHECKING:
    from allotment.web.options import WebOptions

log = logging.getLogger(__name__)


def component_of(arguments: Namespace) -> Component:
    """Return the page as a component. Raises InputError."""
    from allotment.watched.cluster import WatchedCluster
    from allotment.web.server import serve

    options = options_of(arguments)
    watched = WatchedCluster.of(live_cluster(arguments), is_lab=False)

    def program(_: Features) -> Program:
        async def run(_: ProgramContext) -> None:
            try:
                await serve(watched, options, lambda where: log.info("page: %s", where))
            except OSError as error:
                raise AddressUnavailable(f"{arguments.bind_address}: {error.strerror or error}") from None

        return run

    return registry.web(program, lambda: watched.view().error)


def options_of(arguments: Namespace) -> WebOptions:
    """Return the options of the server. Raises InputError."""
    from allotment.web.options import WebOptions, base_path

    try:
        where = address(arguments.bind_address)
    except ValueError as error:
        raise InputError(f"--bind-address: {error}") from None
    files = arguments.tls_cert_file, arguments.tls_private_key_file
    if not (all(files) or arguments.http or where.local):
        raise InputError(
            f"--bind-address {where}: requires --tls-cert-file and --tls-private-key-file: visitors send tokens",
            "specify both files; or --http, if a service mesh encrypts connections",
        )
    certificate, key = (None, None) if arguments.http else (Path(file) if file else None for file in files)
    return WebOptions(
        host=where.host,
        port=where.port,
        certificate=certificate,
        key=key,
        allowed_hosts=tuple(arguments.allowed_host),
        allowed_origins=tuple(arguments.allow_origin),
        in_cluster=True,
        catalog=checked_catalog(arguments.catalog),
        base_path=base_path(arguments.base_path),
    )
