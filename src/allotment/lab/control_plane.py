"""The control plane of a lab in one process: store, API, sockets and programs, from start to clean shutdown.

Order matters at start and shutdown. The fleet's nodes are created before the programs start, so that these list a
complete cluster, and the lab is ready when the drivers have published; at shutdown, programs stop before the API, and
clients before the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from allotment import __version__
from allotment.apiserver.access import secret_tokens
from allotment.apiserver.access.authentication import Authenticator
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.access.bootstrap import authentication_config, namespace_objects
from allotment.apiserver.access.reviews import AccessControl as ApiAccess
from allotment.apiserver.api import Api
from allotment.apiserver.http_messages import AnyResponse, Request, Response
from allotment.apiserver.kinds.kind import ServedKind, User
from allotment.apiserver.local_client import LocalClient, TimeSlice
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.apiserver.stored_versions import convert_stored
from allotment.cluster import program
from allotment.cluster.caches import Caches
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.gc_pause import gc_paused
from allotment.cluster.inspection.permissions import groups_of
from allotment.cluster.recorder import Events
from allotment.cluster.resources import SLICES
from allotment.files import private
from allotment.lab import fleet
from allotment.lab.anonymous_admin import AnonymousAdmin
from allotment.lab.bootstrap import FirstObjects
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.http_server import Server, server_context
from allotment.lab.kubeconfig import Access
from allotment.lab.node_drivers import NodeDrivers
from allotment.lab.programs import DRIVERS, Issuers, programs
from allotment.lab.runtimes import runtime
from allotment.lab.secret_files import accounts_key
from allotment.lab.served_versions import in_program_versions, lab_kinds, serves
from allotment.lab.settings import Settings
from allotment.model.trees import Tree
from allotment.node.kubelet import Kubelets
from allotment.node.kubelet_features import kubelet_features
from allotment.node.node_config import Machine

#: The alphabet of Kubernetes: no vowels, so no words; no characters that are easily confused.
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class RandomIds:
    """The source of random identifiers of a lab; ``seed`` makes them repeatable."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = Random(os.urandom(16) if seed is None else seed)

    def uid(self) -> str:
        """Return a new UUID, version 4.

        >>> len(RandomIds(seed=1).uid())
        36
        """
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def suffix(self) -> str:
        """Return five random characters.

        >>> len(RandomIds().suffix())
        5
        """
        return "".join(self._random.choices(_LETTERS, k=5))


#: Seconds for requests in flight to complete at shutdown.
_GRACE_SECONDS = 2.0
#: Seconds until devices must be published; a thousand nodes need a few.
_PUBLISHING_SECONDS = 60.0

ADMINISTRATOR = User("allotment-admin", ("system:masters", "system:authenticated"))


class Plane:
    """A running control plane."""

    def __init__(
        self,
        settings: Settings,
        store: SqliteStore,
        api: Api,
        clock: Clock,
        access: Access,
        environment: DriverEnvironment,
        issuers: Issuers,
    ) -> None:
        self.issuers = issuers
        self.settings = settings
        self.store = store
        self.api = api
        self.clock = clock
        self.access = access
        self.environment = environment
        self.drivers = NodeDrivers("drivers", environment)
        #: In the syntax of ``--fleet``: the requested fleet, or the one stored in the data.
        self.fleet = settings.fleet if settings.fleet is not None else settings.data.fleet() if settings.data else ()
        self._pace = TimeSlice()
        #: Stops the lab when it has an error: the store cannot be written.
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def kinds(self) -> Sequence[ServedKind]:
        """The kinds that are currently served."""
        return tuple(self.api.catalog)

    def client(self, user: str = ADMINISTRATOR.name, groups: Sequence[str] = ("system:masters",)) -> Client:
        """In-process access as a user, who is also in the groups that follow from the name."""
        client = LocalClient(self.api, User(user, (*groups, *groups_of(user))), "allotment")
        return in_program_versions(client, self.api.catalog)

    def client_for(self, name: str, manager: str = "") -> Client:
        """In-process access for a program, under the identity that it has in Kubernetes."""
        user, default_manager = _identity(name)
        client = LocalClient(self.api, User(user, ADMINISTRATOR.groups), manager or default_manager, self._pace)
        return in_program_versions(client, self.api.catalog)

    def fail(self, error: OSError) -> None:
        """Stop the lab because the store has failed."""
        if not self.failed.done():
            self.failed.set_exception(error)
            self.failed.exception()  # marks the exception as retrieved, so that asyncio does not log it again


def _identity(name: str) -> tuple[str, str]:
    """User and field manager of a program."""
    if name == "kube-scheduler":
        return "system:kube-scheduler", "kube-scheduler"
    if name == "kubelet":
        return "system:node:simulated", "kubelet"
    return f"system:serviceaccount:kube-system:{name}", "kube-controller-manager"


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Plane]:
    """Run a control plane while the context lasts; on entry it serves requests and its fleet is published."""
    async with AsyncExitStack() as stack:
        with gc_paused():
            plane = await _started(settings, stack)
        yield plane


async def _started(settings: Settings, stack: AsyncExitStack) -> Plane:
    """Start the components; the exit stack stops them."""
    if settings.data is not None:
        settings.data.make()
    store = SqliteStore.open(settings.data.database if settings.data else None)
    stack.push_async_callback(store.close)
    clock = Clock(settings.speed)
    keys = _keys(settings, clock, stack)
    authorizer = Authorizer(store, settings.features)
    stack.callback(authorizer.close)
    server, port = await _listening(settings, keys, stack)
    access = _access(settings, keys, port)
    companions = _namespace_objects(settings, access)
    kinds = lab_kinds(settings.features, settings.runtime_config)
    convert_stored(store, kinds)
    by_node: dict[str, Machine] = {}
    kubelets = Kubelets(
        machines=by_node, features=kubelet_features(settings.features), unknown_commands=settings.unknown_commands
    )
    ids = RandomIds()
    containers = await stack.enter_async_context(runtime(settings.runtime, settings.images, access.server))
    states = _folder(stack, "allotment-nodes-") if containers is not None else None
    volumes = settings.data.volumes if settings.data else states and states / "persistent-volumes"
    ground = DriverEnvironment(
        kubelets, by_node, settings.features, ids.uid(), containers, settings.roots, states, volumes
    )  # fmt: skip
    authenticator = _authenticator(settings, store, clock, keys, authorizer)
    api = Api(
        store, kinds, clock=clock.moment, ids=ids, features=settings.features,
        access=ApiAccess(authenticator, authorizer),
        server=access.server.partition("//")[2], namespace_objects=companions, kubelets=kubelets,
    )  # fmt: skip
    if settings.api_server is not None:
        api.verbs.admission.disabled_plugins = settings.api_server.disabled_plugins
    stack.push_async_callback(api.outbound.close)
    server.application = api
    server.bodies.identify = authenticator.sender
    issuers = Issuers(partial(secret_tokens.issue, keys.accounts), access.authority.decode(), keys.folder)
    plane = Plane(settings, store, api, clock, access, ground, issuers)
    store.on_failure = plane.fail
    first = FirstObjects(store, api.verbs, api.catalog, companions)
    stack.callback(first.end)
    first.begin(port, keys.authentication)
    api.definition_cleanup.begin()
    stack.push_async_callback(api.aggregated.close)
    api.aggregated.begin(keys.proxy)
    if settings.fleet is not None:
        await fleet.publish(
            plane.client(), settings.fleet, kube=settings.features.kube, version=__version__, now=clock.now()
        )
        if settings.data is not None:
            settings.data.keep_fleet(settings.fleet)
    if settings.autoscale is not None:
        await fleet.bring_vendors(plane.client(), settings.autoscale.vendors)
    machines = await fleet.machines(plane.client())
    driven = {} if DRIVERS in settings.without else machines
    for node in machines:
        ground.open(node)
    for node, form in driven.items():
        ground.expect(node, form)
    await stack.enter_async_context(_programs(plane))
    await _published(plane.drivers, driven if serves(api.catalog, SLICES) else ())
    await store.durable()
    return plane


class _Keys(NamedTuple):
    """The credentials of the lab, in ``folder``. ``access`` has no address yet. Without TLS most fields are empty."""

    folder: Path
    accounts: bytes
    token: str = ""
    tls: ssl.SSLContext | None = None
    access: Access = Access("")
    #: The files of the certificate that the server shows to aggregated API servers, and the ConfigMap for these.
    proxy: tuple[str, str] | None = None
    authentication: Tree | None = None


def _keys(settings: Settings, clock: Clock, stack: AsyncExitStack) -> _Keys:
    if settings.data is not None:
        folder = settings.data.certificates
    else:
        folder = _folder(stack, "allotment-") / "pki"
    private.make_folder(folder)
    accounts = accounts_key(folder / "accounts.key")
    if not settings.tls:
        return _Keys(folder, accounts)
    if (given := settings.api_server) is not None:
        tls = server_context(given.certificate, given.key, given.client_authority)
        return _Keys(folder, accounts, tls=tls, access=Access("", given.certificate.read_bytes()))
    from allotment.lab import certificates

    made = certificates.ensure(
        folder, clock.moment(), tuple(filter(None, (settings.host, _client_address(settings.host))))
    )
    tls = server_context(made.server.certificate, made.server.key, made.authority)
    access = Access(
        "", made.authority.read_bytes(), made.admin.certificate.read_bytes(), made.admin.key.read_bytes()
    )  # fmt: skip
    authority, proxy = certificates.front_proxy(folder, clock.moment())
    config = authentication_config(access.authority.decode(), authority.read_text(), certificates.FRONT_PROXY)
    return _Keys(folder, accounts, made.token, tls, access, (str(proxy.certificate), str(proxy.key)), config)


def _namespace_objects(settings: Settings, access: Access) -> Callable[[str], Iterable[Tree]]:
    """The objects of each namespace, which controllers create in Kubernetes: none in a lab without controllers."""
    if settings.api_server is not None:
        return lambda namespace: ()
    return partial(namespace_objects, ca_certificate=access.authority.decode())


def _folder(stack: AsyncExitStack, prefix: str) -> Path:
    """A folder for the lifetime of the lab."""
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix)))


def _authenticator(
    settings: Settings, store: SqliteStore, clock: Clock, keys: _Keys, authorizer: Authorizer
) -> Authenticator:
    if not settings.tls:
        return AnonymousAdmin(
            store, clock=clock.moment, key=keys.accounts, authorize=authorizer, administrator=ADMINISTRATOR,
            host=settings.host,
        )  # fmt: skip
    static = {keys.token: ADMINISTRATOR} if keys.token else {}
    return Authenticator(store, clock=clock.moment, key=keys.accounts, authorize=authorizer, static=static)


async def _listening(settings: Settings, keys: _Keys, stack: AsyncExitStack) -> tuple[Server, int]:
    """A listening server whose application is set later."""
    server = Server(_starting)
    stack.push_async_callback(server.stop, _GRACE_SECONDS)
    ports = [settings.port] if settings.port else [settings.preferred_port, 0] if settings.preferred_port else [0]
    for port in ports:
        try:
            return server, await server.listen(settings.host, port, keys.tls)
        except OSError as error:
            number = error.errno or 0
            why = (
                os.strerror(number).lower() if number > 0 else error.strerror
            )  # below zero: the host name cannot be resolved
            where = f"{settings.host}:{port}" if port else settings.host
            refused = OSError(number, f"cannot listen on {where}: {why}")
    raise refused


async def _starting(request: Request) -> AnyResponse:
    """Answer requests until the API is ready."""
    return Response(503, (("retry-after", "1"),), b"")


def _access(settings: Settings, keys: _Keys, port: int) -> Access:
    shown = _client_address(settings.host)
    address = f"[{shown}]" if ":" in shown else shown
    return keys.access._replace(server=f"{'https' if keys.tls else 'http'}://{address}:{port}")


def _client_address(host: str) -> str:
    """The address for clients on this machine."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


async def _published(drivers: NodeDrivers, nodes: Iterable[str]) -> None:
    """Wait for the devices of nodes; if they do not appear, log the reason and continue."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PUBLISHING_SECONDS):
            await drivers.published(nodes)


@asynccontextmanager
async def _programs(plane: Plane) -> AsyncIterator[None]:
    random = Random()
    client = plane.client_for("allotment", "kube-controller-manager")
    caches = Caches(client, clock=plane.clock, random=random)
    events = Events(client, clock=plane.clock)
    context = program.ProgramContext(plane.client_for, caches, plane.clock, events, random)
    settings = plane.settings
    running = programs(plane.environment, plane.drivers, settings.without, settings.autoscale, plane.issuers)
    task = asyncio.create_task(program.run(running, context), name="programs")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
