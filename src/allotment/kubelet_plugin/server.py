"""The driver's side: a :class:`.Plugin` on two sockets, one for its kubelet's calls and one to be found by.

    async with served(plugin, *socket_paths("gpu.example.com", plugins_dir=..., registry_dir=...), on_registered=tell):
        ...

The endpoint accepts calls before the registration socket appears, and the registration socket goes first at the end: a
kubelet never knows of a plugin that does not answer.
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
from allotment.kubelet_plugin.encoding import Version
from allotment.kubelet_plugin.messages import DeviceHealth, KubeletPlugin, PluginCallError
from allotment.kubelet_plugin.sockets import SocketError, SocketPaths, bind, check_length, remove_leftovers
from allotment.kubelet_plugin.wire import registration_pb2

log = logging.getLogger(__name__)

#: Told with True and no text, or with False and the kubelet's reason; again whenever a kubelet starts anew.
OnRegistered = Callable[[bool, str], None]

#: How long calls that are under way may take to end. Prepare and unprepare are repeated by kubelets anyway.
_GRACE_SECONDS: Final = 5.0

_Context = grpc.aio.ServicerContext[Any, Any]
_M = TypeVar("_M", bound=Message)
if TYPE_CHECKING:
    # Generic to the type checker only.
    _Service = grpc.GenericRpcHandler[Any, Any]


@asynccontextmanager
async def serve_plugin(
    plugin: KubeletPlugin, endpoint: Path, registration: Path, *, on_registered: OnRegistered
) -> AsyncIterator[None]:
    """Serve ``plugin`` while the block runs. Raises SocketUnusable, and OSError from the file system."""
    endpoint, registration = endpoint.absolute(), registration.absolute()
    check_length(endpoint)
    check_length(registration)
    stopping = asyncio.Event()
    has_health = await _has_health(plugin)
    services = [_dra_service(plugin, version) for version in encoding.VERSIONS]
    if has_health:
        services.append(_health_service(plugin, stopping))
    versions = [version.name for version in encoding.VERSIONS] + [encoding.HEALTH] * has_health
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
    path: Path, services: Sequence[_Service], ending: asyncio.Event | None = None
) -> AsyncIterator[None]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(tuple(services))

    def listen(at: Path) -> None:
        try:
            server.add_insecure_port(f"unix:{at}")
        except RuntimeError as error:
            raise SocketError(f"cannot listen at {path}: {error}") from error

    bind(path, listen)
    try:
        await server.start()
        yield
    finally:
        if ending:
            # Streams have no end of their own.
            ending.set()
        # The socket is gone from the first moment on, so that who comes next can have it.
        await server.stop(_GRACE_SECONDS)


# --- the services ----------------------------------------------------------------------------------------------------


def _dra_service(plugin: KubeletPlugin, version: Version) -> _Service:
    async def prepare(request: bytes, context: _Context) -> Any:
        claims = await _decode(version.wire.NodePrepareResourcesRequest, request, context)
        answers = await _await_driver(plugin.prepare(encoding.decode_claims(claims)), context)
        return encoding.encode_prepare_response(version, answers)

    async def unprepare(request: bytes, context: _Context) -> Any:
        claims = await _decode(version.wire.NodeUnprepareResourcesRequest, request, context)
        answers = await _await_driver(plugin.unprepare(encoding.decode_claims(claims)), context)
        return encoding.encode_unprepare_response(version, answers)

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
    """A driver's answer; what it raises becomes a status. A kubelet that gives up cancels the driver's call."""
    try:
        return await call
    except PluginCallError as error:
        # Plain errors of a Go driver are of code Unknown, too.
        await context.abort(grpc.StatusCode.UNKNOWN, grpc_codec.truncate_details(str(error)))
    except Exception as error:
        log.exception("A call of the kubelet failed for an unexpected reason")
        await context.abort(grpc.StatusCode.INTERNAL, grpc_codec.truncate_details(f"{type(error).__name__}: {error}"))


def _health_service(plugin: KubeletPlugin, ending: asyncio.Event) -> _Service:
    async def watch(request: bytes, context: _Context) -> AsyncIterator[Any]:
        news = plugin.health()
        if news is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{plugin.name} does not tell its devices' health")
        else:
            async for devices in _until_stopped(ending, news):
                yield encoding.encode_health(devices)

    handler = grpc.unary_stream_rpc_method_handler(watch, response_serializer=grpc_codec.encode)
    return grpc.method_handlers_generic_handler(encoding.HEALTH, {encoding.WATCH: handler})


async def _has_health(plugin: KubeletPlugin) -> bool:
    news = plugin.health()
    if isinstance(news, AsyncGenerator):
        await news.aclose()
    return news is not None


async def _until_stopped(
    ending: asyncio.Event, news: AsyncIterator[Sequence[DeviceHealth]]
) -> AsyncIterator[Sequence[DeviceHealth]]:
    """What ``news`` has to tell, until the server ends."""
    over = asyncio.ensure_future(ending.wait())
    try:
        while True:
            message = asyncio.ensure_future(anext(news, None))
            try:
                await asyncio.wait((over, message), return_when=asyncio.FIRST_COMPLETED)
                if over.done() or (devices := message.result()) is None:
                    return
            finally:
                message.cancel()
                await asyncio.wait((message,))
            yield devices
    finally:
        over.cancel()
        if isinstance(news, AsyncGenerator):
            await news.aclose()


def _registration_service(info: registration_pb2.PluginInfo, on_registered: OnRegistered) -> _Service:
    async def get_info(request: bytes, context: _Context) -> registration_pb2.PluginInfo:
        return info

    async def notify(request: bytes, context: _Context) -> registration_pb2.RegistrationStatusResponse:
        status = await _decode(registration_pb2.RegistrationStatus, request, context)
        try:
            on_registered(status.plugin_registered, status.error)
        except Exception:
            # To a kubelet a failure here means that the driver does not want to be registered.
            log.exception("The kubelet's answer to the registration could not be handled")
        return registration_pb2.RegistrationStatusResponse()

    methods = {
        "GetInfo": grpc.unary_unary_rpc_method_handler(get_info, response_serializer=grpc_codec.encode),
        "NotifyRegistrationStatus": grpc.unary_unary_rpc_method_handler(notify, response_serializer=grpc_codec.encode),
    }
    return grpc.method_handlers_generic_handler("pluginregistration.Registration", methods)
