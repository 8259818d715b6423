"""``allot cluster-autoscaler``: a cloud provider and an expander for Kubernetes' own cluster-autoscaler."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from allotment.api.objects.releases import features
from allotment.api.plans.catalog import Catalog, select_catalog
from allotment.cli.arguments.cluster_autoscaler import CLOUD_PROVIDER, EXPANDER
from allotment.cli.autoscale import provider_of
from allotment.cli.cluster_autoscaler_config import Files, ListenAddress, config, parse_listen_address
from allotment.cli.inputs.catalogs import report_problems
from allotment.cli.inputs.durations import duration
from allotment.cli.live.connection import cluster_errors, way_to
from allotment.errors import InputError
from allotment.extras import require
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import Features
from allotment.phrases import counted
from allotment.planning.limits import PlanLimits

if TYPE_CHECKING:
    from allotment.autoscaler.cluster_autoscaler.node_groups import NodeGroup
    from allotment.autoscaler.cluster_autoscaler.program import ServerOptions
    from allotment.cluster.remote.kubeconfig import ClusterTarget

#: The user agent of the servers' client.
_NAME = "allotment-cluster-autoscaler"


class _Served(NamedTuple):
    """The servers and their addresses. ``files``: None without TLS."""

    cloud: ListenAddress | None
    expander: ListenAddress | None
    names: tuple[str, ...]
    files: Files | None
    plain: bool

    def config(self) -> list[str]:
        """Return the configuration for cluster-autoscaler."""
        cloud, expander = (place and place.seen(self.names) for place in (self.cloud, self.expander))
        return list(config(cloud, expander, self.files, plain=self.plain))


def run(arguments: Namespace) -> int:
    """Serve until SIGTERM or SIGINT, or print the configuration for cluster-autoscaler."""
    require("allot cluster-autoscaler", *_extras(arguments))
    catalog = select_catalog(arguments.catalog)
    groups = _groups(arguments, catalog)
    served = _served(arguments)
    code = report_problems(catalog)
    if arguments.print_config:
        sys.stdout.write("".join(f"{line}\n" for line in served.config()))
        return code
    _options(
        arguments, served, catalog, groups, features(DEFAULT_RELEASE, ())
    )  # report invalid options before connecting
    way = way_to(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with cluster_errors(way):
        asyncio.run(_serve(arguments, served, catalog, groups, way))
    return code


def _extras(arguments: Namespace) -> Iterator[str]:
    """Return the required extras: gRPC, and cryptography if certificates are generated."""
    yield "drivers"
    if not arguments.tls_cert_file and not (
        arguments.plaintext and arguments.expander is None and arguments.cloud_provider
    ):
        yield "lab"


async def _serve(
    arguments: Namespace, served: _Served, catalog: Catalog, groups: tuple[NodeGroup, ...], way: ClusterTarget
) -> None:
    from allotment.autoscaler.cluster_autoscaler.program import servers
    from allotment.cli.live.program_context import context_of, features_of
    from allotment.cluster import program
    from allotment.cluster.remote.http_client import HttpClient
    from allotment.externalgrpc.server import ListenError, TlsFileError

    async with HttpClient(way, _NAME) as client:
        options = _options(arguments, served, catalog, groups, await features_of(arguments, client))
        context = context_of(client)
        serving = asyncio.ensure_future(servers(options, _ready(served, groups))(context))
        caches = asyncio.create_task(program.run({}, context), name="caches")
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
        try:
            with suppress(asyncio.CancelledError):
                await serving
        except (ListenError, TlsFileError) as error:
            raise InputError(str(error)) from None
        finally:
            caches.cancel()
            await asyncio.wait((caches,))


def _ready(served: _Served, groups: tuple[NodeGroup, ...]) -> Callable[[int, int], None]:
    def log_ready(cloud: int, expander: int) -> None:
        found = served._replace(
            cloud=served.cloud and served.cloud._replace(port=cloud),
            expander=served.expander and served.expander._replace(port=expander),
        )
        count = counted(len(groups), "node group")
        lines = [f"Cloud provider listening on {found.cloud}, with {count}."] if found.cloud else []
        lines += [f"Expander listening on {found.expander}."] if found.expander else []
        sys.stdout.write("".join(f"{line}\n" for line in (*lines, *found.config())))
        sys.stdout.flush()

    return log_ready


def _options(
    arguments: Namespace, served: _Served, catalog: Catalog, groups: tuple[NodeGroup, ...], known: Features
) -> ServerOptions:
    from allotment.autoscaler.cluster_autoscaler.cloud_provider import CloudSettings
    from allotment.autoscaler.cluster_autoscaler.program import ListenAddress, ServerOptions
    from allotment.externalgrpc.encoding import validate_slices_field
    from allotment.externalgrpc.server import TlsFiles

    try:
        slices_field = validate_slices_field(arguments.slices_field)
    except ValueError as error:
        raise InputError(f"--slices-field: {error}", "see cluster-autoscaler's externalgrpc.proto") from None
    files = served.files
    tls = TlsFiles(files.certificate, files.key) if files is not None else None
    mutual = tls._replace(client_authority=files.client_authority) if tls is not None and files is not None else None
    return ServerOptions(
        groups, catalog.types, known, provider_of(arguments, catalog, known),
        ListenAddress(str(served.cloud), None if served.plain else mutual) if served.cloud else None,
        ListenAddress(str(served.expander), tls) if served.expander else None,
        CloudSettings(
            known.kube, arguments.gpu_label,
            duration("--max-node-provision-time", arguments.max_node_provision_time),
        ),
        slices_field,
    )  # fmt: skip


# --- what the arguments mean -----------------------------------------------------------------------------------------


def _groups(arguments: Namespace, catalog: Catalog) -> tuple[NodeGroup, ...]:
    from allotment.autoscaler.cluster_autoscaler.node_groups import InvalidNodeGroups, groups_of, parse_nodes

    zones = tuple(zone for text in arguments.zones for zone in text.split(",") if zone)
    limits = PlanLimits(providers=catalog.providers, zones=zones, capacity=arguments.capacity_type)
    try:
        return groups_of(catalog.types, [parse_nodes(text) for text in arguments.nodes], limits)
    except InvalidNodeGroups as error:
        raise InputError(str(error), error.hint) from None


def _served(arguments: Namespace) -> _Served:
    """Return the servers to run: both, unless only one address is given."""
    both = arguments.cloud_provider is None and arguments.expander is None
    cloud = parse_listen_address("--cloud-provider", arguments.cloud_provider or CLOUD_PROVIDER)
    expander = parse_listen_address("--expander", arguments.expander or EXPANDER)
    wants_cloud = both or arguments.cloud_provider is not None
    wants_expander = both or arguments.expander is not None
    if wants_cloud and not arguments.nodes:
        raise InputError(
            "the cloud provider requires --nodes MIN:MAX:TYPE[/MODE]",
            "for example --nodes 0:10:aws/g5.*; to run only an expander, specify its address with --expander",
        )
    if arguments.plaintext and not cloud.loopback:
        raise InputError(
            f"--plaintext: expected a loopback address, found {cloud}: clients of the cloud provider can order machines"
        )
    if bool(arguments.tls_cert_file) != bool(arguments.tls_private_key_file):
        raise InputError("--tls-cert-file and --tls-private-key-file: specify both or neither")
    names = tuple(arguments.tls_san)
    places = [
        place
        for place, wants in ((cloud, wants_cloud and not arguments.plaintext), (expander, wants_expander))
        if wants
    ]
    files = (
        _files(arguments, places, wants_cloud and not arguments.plaintext and not cloud.loopback) if places else None
    )
    return _Served(
        cloud if wants_cloud else None, expander if wants_expander else None, names, files, arguments.plaintext
    )


def _files(arguments: Namespace, places: list[ListenAddress], remote: bool) -> Files:
    """Return the given or generated certificate files. ``remote``: the cloud provider is not restricted to loopback."""
    client_ca = Path(arguments.client_ca_file) if arguments.client_ca_file else None
    if arguments.tls_cert_file:
        if remote and client_ca is None:
            raise InputError(
                "--client-ca-file is required, because clients of the cloud provider can order machines",
                "specify --client-ca-file FILE, or listen only on 127.0.0.1",
            )
        return Files(
            Path(arguments.tls_cert_file),
            Path(arguments.tls_private_key_file),
            Path(arguments.tls_cert_file),
            client_ca,
        )
    from allotment.lab import certificates
    from allotment.lab.secret_files import DamagedFile
    from allotment.lab.state import default_folder

    folder = Path(arguments.cert_dir).absolute() if arguments.cert_dir else default_folder("cluster-autoscaler")
    now = datetime.now(UTC)
    seen = (place.seen(tuple(arguments.tls_san)).host for place in places)
    try:
        authority, server = certificates.serving(folder, now, dict.fromkeys((*arguments.tls_san, *seen)))
        client = certificates.issue(folder, "cluster-autoscaler", (), now)
    except DamagedFile as error:
        raise InputError(error.problem, error.advice) from None
    return Files(server.certificate, server.key, authority, client_ca or authority, client.certificate, client.key)
