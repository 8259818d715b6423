"""The driver's side of the DRA API: serves a :class:`.KubeletPlugin` at two sockets, for calls and for registration.

    async with serve_plugin(plugin, *socket_paths("gpu.example.com", ...), on_registered=log_registration):
        ...

The endpoint accepts calls before the registration socket is created, and the registration socket is removed first, so
that a registered plugin always answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from allotment import grpc_codec
from allotment.kubelet_plugin import encoding
from allotment.kubelet_plugin.encoding import HealthVersion, Version
from allotment.kubelet_plugin.messages import DeviceHealth, KubeletPlugin, PluginCallError
from allotment.kubelet_plugin.sockets import SocketError, SocketPaths, bind, check_length, remove_leftovers
from allotment.kubelet_plugin.wire import registration_pb2

log = logging.getLogger(__name__)

#: Called with True and "", or with False and the kubelet's error, each time a kubelet registers the driver.
OnRegistered = Callable[[bool, str], None]

#: Time for calls in flight to finish at shutdown. A kubelet repeats prepare and unprepare anyway.
_GRACE_SECONDS: Final = 5.0

_Context = grpc.aio.ServicerContext[Any, Any]
_M = TypeVar("_M", bound=Message)
if TYPE_CHECKING:
    # These classes are generic for type checkers only.
    _Service = grpc.GenericRpcHandler[Any, Any]


@asynccontextmanager
async def serve_plugin(
    plugin: KubeletPlugin,
    endpoint: Path,
    registration: Path,
    *,
    on_registered: OnRegistered,
    health_versions: Sequence[HealthVersion] = encoding.HEALTH_VERSIONS,
) -> AsyncIterator[None]:
    """Serve ``plugin`` while the block runs. Raises SocketError, and OSError from the file system.

    ``health_versions``: the versions of the health service to serve if the driver reports health.
    """
    endpoint, registration = endpoint.absolute(), registration.absolute()
    check_length(endpoint)
    check_length(registration)
    stopping = asyncio.Event()
    served_health = health_versions if await _has_health(plugin) else ()
    services = [_dra_service(plugin, version) for version in encoding.VERSIONS]
    services += [_health_service(plugin, version, stopping) for version in served_health]
    versions = [version.name for version in encoding.VERSIONS] + [version.service for version in served_health]
    info = registration_pb2.PluginInfo(
        type="DRAPlugin", name=plugin.name, endpoint=str(endpoint), supported_versions=versions
    )
    async with _serve_socket(endpoint, services, stopping):
        registration.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        remove_leftovers(plugin.name, SocketPaths(endpoint, registration))
        async with _serve_socket(registration, [_registration_service(info, on_registered)]):
            yield


@asynccontextmanager
async def _serve_socket(
    path: Path, services: Sequence[_Service], stopping: asyncio.Event | None = None
) -> AsyncIterator[None]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(tuple(services))

    def listen(path: Path) -> None:
        try:
            server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            raise SocketError(f"cannot listen on {path}: {error}") from error

    bind(path, listen)
    try:
        await server.start()
        yield
    finally:
        if stopping:
            # Streams do not end by themselves.
            stopping.set()
        # stop() first closes the socket, so that a new process can use it.
        await server.stop(_GRACE_SECONDS)


# --- the services -----------------------------------------------------------------------------------------------------


def _dra_service(plugin: KubeletPlugin, version: Version) -> _Service:
    async def prepare(request: bytes, context: _Context) -> Any:
        claims = await _decode(version.wire.NodePrepareResourcesRequest, request, context)
        results = await _await_driver(plugin.prepare(encoding.decode_claims(claims)), context)
        return encoding.encode_prepare_response(version, results)

    async def unprepare(request: bytes, context: _Context) -> Any:
        claims = await _decode(version.wire.NodeUnprepareResourcesRequest, request, context)
        results = await _await_driver(plugin.unprepare(encoding.decode_claims(claims)), context)
        return encoding.encode_unprepare_response(version, results)

    methods = {
        encoding.PREPARE: grpc.unary_unary_rpc_method_handler(prepare, response_serializer=grpc_codec.encode),
        encoding.UNPREPARE: grpc.unary_unary_rpc_method_handler(unprepare, response_serializer=grpc_codec.encode),
    }
    return grpc.method_handlers_generic_handler(version.service, methods)


async def _decode(kind: type[_M], request: bytes, context: _Context) -> _M:
    try:
        return grpc_codec.decode(kind, request)
    except grpc_codec.InvalidMessage as error:
        return await context.abort(grpc.StatusCode.INTERNAL, str(error))


async def _await_driver(call: Awaitable[Any], context: _Context) -> Any:
    """Await a driver's result; exceptions become a gRPC status. If the kubelet hangs up, the call is cancelled."""
    try:
        return await call
    except PluginCallError as error:
        # Plain errors of Go drivers have the code Unknown, too.
        await context.abort(grpc.StatusCode.UNKNOWN, grpc_codec.truncate_details(str(error)))
    except Exception as error:
        log.exception("unexpected error in a call from the kubelet")
        await context.abort(grpc.StatusCode.INTERNAL, grpc_codec.truncate_details(f"{type(error).__name__}: {error}"))


def _health_service(plugin: KubeletPlugin, version: HealthVersion, stopping: asyncio.Event) -> _Service:
    async def watch(request: bytes, context: _Context) -> AsyncIterator[Any]:
        events = plugin.health()
        if events is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{plugin.name} does not report device health")
        else:
            async for devices in _until_stopped(stopping, events):
                yield encoding.encode_health(version, devices)

    handler = grpc.unary_stream_rpc_method_handler(watch, response_serializer=grpc_codec.encode)
    return grpc.method_handlers_generic_handler(version.service, {encoding.WATCH: handler})


async def _has_health(plugin: KubeletPlugin) -> bool:
    events = plugin.health()
    if isinstance(events, AsyncGenerator):
        await events.aclose()
    return events is not None


async def _until_stopped(
    stopping: asyncio.Event, events: AsyncIterator[Sequence[DeviceHealth]]
) -> AsyncIterator[Sequence[DeviceHealth]]:
    """Yield the messages of ``events`` until the server is stopped."""
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        while True:
            message = asyncio.ensure_future(anext(events, None))
            try:
                await asyncio.wait((stopped, message), return_when=asyncio.FIRST_COMPLETED)
                if stopped.done() or (devices := message.result()) is None:
                    return
            finally:
                message.cancel()
                await asyncio.wait((message,))
            yield devices
    finally:
        stopped.cancel()
        if isinstance(events, AsyncGenerator):
            await events.aclose()


def _registration_service(info: registration_pb2.PluginInfo, on_registered: OnRegistered) -> _Service:
    async def get_info(request: bytes, context: _Context) -> registration_pb2.PluginInfo:
        return info

    async def notify(request: bytes, context: _Context) -> registration_pb2.RegistrationStatusResponse:
        status = await _decode(registration_pb2.RegistrationStatus, request, context)
        try:
            on_registered(status.plugin_registered, status.error)
        except Exception:
            # A kubelet interprets a failed notification as the driver rejecting the registration.
            log.exception("unexpected error in the registration callback")
        return registration_pb2.RegistrationStatusResponse()

    methods = {
        "GetInfo": grpc.unary_unary_rpc_method_handler(get_info, response_serializer=grpc_codec.encode),
        "NotifyRegistrationStatus": grpc.unary_unary_rpc_method_handler(notify, response_serializer=grpc_codec.encode),
    }
    return grpc.method_handlers_generic_handler("pluginregistration.Registration", methods)
