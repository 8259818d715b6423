"""The kubelet's side of a registration: GetInfo at a new socket, validation, NotifyRegistrationStatus.

The error texts are those of the kubelet, which drivers log and users search for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc

from allotment import grpc_codec
from allotment.kubelet_plugin import encoding
from allotment.kubelet_plugin.client import PluginInfo, UnsupportedVersions, choose_version, open_channel
from allotment.kubelet_plugin.grpc_errors import call_error, invalid_message_error
from allotment.kubelet_plugin.wire import registration_pb2

DIAL_SECONDS: Final = 10.0
INFO_SECONDS: Final = 1.0
NOTIFY_SECONDS: Final = 5.0

_METHODS: Final = "/pluginregistration.Registration/"


class RegistrationFailed(Exception):
    """Raised if a plugin could not be registered; the text is what a kubelet logs."""


async def register(socket: Path, add: Callable[[PluginInfo], None], remove: Callable[[], None]) -> None:
    """Perform the handshake with the plugin that registers at ``socket``. Raises RegistrationFailed.

    ``add`` adds the plugin, or raises RegistrationFailed with the error that is sent to it. ``remove`` reverts that if
    the plugin cannot be notified of its success.
    """
    async with _dial(socket) as channel:
        info = await _get_info(channel, socket)
        try:
            _validate(info, socket)
            try:
                add(info)
            except RegistrationFailed as reason:
                raise RegistrationFailed(
                    f"RegisterPlugin error -- plugin registration failed with err: {reason}"
                ) from reason
        except RegistrationFailed as error:
            await _notify(channel, socket, str(error))
            raise
        try:
            await _notify(channel, socket, "")
        except BaseException:
            remove()
            raise


async def get_info(socket: Path) -> PluginInfo:
    """Return the GetInfo response of the plugin at ``socket``, without validation. Raises RegistrationFailed."""
    async with _dial(socket) as channel:
        return await _get_info(channel, socket)


@asynccontextmanager
async def _dial(socket: Path) -> AsyncIterator[grpc.aio.Channel]:
    async with open_channel(socket) as channel:
        try:
            await asyncio.wait_for(channel.channel_ready(), DIAL_SECONDS)
        except TimeoutError as error:
            raise RegistrationFailed(
                f"RegisterPlugin error -- dial failed at socket {socket}, err: "
                f"failed to dial socket {socket}, err: context deadline exceeded"
            ) from error
        yield channel


async def _get_info(channel: grpc.aio.Channel, socket: Path) -> PluginInfo:
    call = channel.unary_unary(_METHODS + "GetInfo", request_serializer=grpc_codec.encode, response_deserializer=bytes)
    try:
        data = await call(registration_pb2.InfoRequest(), timeout=INFO_SECONDS)
        info = grpc_codec.decode(registration_pb2.PluginInfo, data)
    except (grpc.aio.AioRpcError, grpc_codec.InvalidMessage) as error:
        reason = (
            invalid_message_error(error) if isinstance(error, grpc_codec.InvalidMessage) else call_error(error, socket)
        )
        raise RegistrationFailed(
            f"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {socket}, err: {reason}"
        ) from error
    # Some plugins serve both services at one socket.
    endpoint = Path(info.endpoint) if info.endpoint else socket
    return PluginInfo(info.name, endpoint, tuple(info.supported_versions), info.type)


def _validate(info: PluginInfo, socket: Path) -> None:
    if info.type != "DRAPlugin":
        raise RegistrationFailed(
            f"RegisterPlugin error -- no handler registered for plugin type: {info.type} at socket {socket}"
        )
    try:
        choose_version(info.versions)
    except UnsupportedVersions as reason:
        raise RegistrationFailed(
            "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of DRA driver "
            f"plugin {info.name} at endpoint {info.endpoint}: {reason}"
        ) from reason


async def _notify(channel: grpc.aio.Channel, socket: Path, error_text: str) -> None:
    # The response is an empty message.
    call = channel.unary_unary(
        _METHODS + "NotifyRegistrationStatus", request_serializer=grpc_codec.encode, response_deserializer=bytes
    )
    status = registration_pb2.RegistrationStatus(
        plugin_registered=not error_text, error=encoding.replace_surrogates(error_text)
    )
    try:
        await call(status, timeout=NOTIFY_SECONDS)
    except grpc.aio.AioRpcError as error:
        action = "failed to send error" if error_text else "failed to send registration status"
        raise RegistrationFailed(
            f"RegisterPlugin error -- {action} at socket {socket}, err: {error_text}: {call_error(error, socket)}"
        ) from error
