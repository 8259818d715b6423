"""The kubelet's side of the DRA API: a :class:`.KubeletPlugin` that calls a driver over its socket.

As in a kubelet, the client connects in the background, reconnects after a failure and exposes the connection's state.
If the driver is not available, calls fail; creating the client does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc

from allotment import grpc_codec
from allotment.kubelet_plugin import encoding
from allotment.kubelet_plugin.encoding import HealthVersion, Version
from allotment.kubelet_plugin.grpc_errors import call_error, invalid_message_error
from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, HealthNotSupported, PluginCallError, PrepareResult
from allotment.model.quoting import quote

if TYPE_CHECKING:
    # These classes are generic for type checkers only.
    _Method = grpc.aio.UnaryUnaryMultiCallable[Any, bytes]

#: Timeout of a call, in seconds: half of the time after which a kubelet retries.
CALL_SECONDS: Final = 45.0

#: Maximum time that the C core takes to close a channel.
_CLOSE_SECONDS: Final = 0.2

_OPTIONS: Final = (
    # Channels to the same path would otherwise share their back-off: a restarted plugin would wait for that of the old
    # one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 5000),
)


class PluginInfo(NamedTuple):
    """A plugin's response to GetInfo."""

    name: str
    endpoint: Path
    versions: tuple[str, ...]
    type: str = "DRAPlugin"


class UnsupportedVersions(Exception):
    """Raised if Allotment supports none of the services that a plugin lists; the text is the kubelet's."""


def choose_version(versions: Sequence[str]) -> Version:
    """Return the first supported version of the plugin's ordered list. Raises UnsupportedVersions.

    >>> choose_version(("v1beta1.DRAPlugin", "v1.DRAPlugin")).name
    'v1beta1.DRAPlugin'
    """
    if not versions:
        raise UnsupportedVersions("empty list of supported gRPC services (aka supported versions)")
    supported = {version.name: version for version in encoding.VERSIONS}
    for name in versions:
        if name in supported:
            return supported[name]
    # Plugins written for Kubernetes before 1.32 list version numbers ("1.0.0") instead of services.
    raise UnsupportedVersions(
        f"none of services supported by the plugin ({_quoted(versions)}) "
        f"are supported by the kubelet ({_quoted(supported)})"
    )


def choose_health_version(
    versions: Sequence[str], supported: Sequence[HealthVersion] = encoding.HEALTH_VERSIONS
) -> HealthVersion | None:
    """Return the first of a kubelet's ``supported`` health services that the plugin lists; None if it lists none.

    Unlike for the DRA service, the kubelet's order decides.

    >>> choose_health_version(("v1alpha1.DRAResourceHealth", "v1.DRAPlugin", "v1.DRAResourceHealth")).service
    'v1.DRAResourceHealth'
    """
    return next((version for version in supported if version.service in versions), None)


def _quoted(names: Sequence[str] | Mapping[str, Any]) -> str:
    return "[" + " ".join(quote(name) for name in names) + "]"


def open_channel(path: Path) -> grpc.aio.Channel:
    """Return a channel to a unix socket, which connects when it is used."""
    return grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS)


class PluginClient:
    """A client of the driver behind a socket, which need not exist yet. Must be closed."""

    def __init__(
        self,
        info: PluginInfo,
        *,
        seconds: float = CALL_SECONDS,
        health_versions: Sequence[HealthVersion] = encoding.HEALTH_VERSIONS,
    ) -> None:
        """``seconds``: the timeout of a call. ``health_versions``: see :func:`choose_health_version`.

        Raises UnsupportedVersions.
        """
        self.info = info
        self.version = choose_version(info.versions)
        self.health_version = choose_health_version(info.versions, health_versions)
        #: Whether the channel is connected.
        self.is_connected = False
        #: Called after each change of ``is_connected``.
        self.on_connection: Callable[[], None] = lambda: None
        self._seconds = seconds
        self._channel = open_channel(info.endpoint)
        self._prepare = self._method(encoding.PREPARE)
        self._unprepare = self._method(encoding.UNPREPARE)
        self._streams: set[grpc.aio.UnaryStreamCall[Any, Any]] = set()
        self._connection_task = asyncio.create_task(self._keep_connected())

    @property
    def name(self) -> str:
        return self.info.name

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        """Prepare claims; return the results by claim UID, exactly one for each claim. Raises PluginCallError."""
        response = await self._call(self._prepare, encoding.PREPARE, claims)
        results = encoding.decode_prepare_response(self.version, response)
        _check_complete(encoding.PREPARE, claims, results)
        return results

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Unprepare claims; return the errors by claim UID, exactly one for each claim. Raises PluginCallError."""
        results = encoding.decode_unprepare_response(await self._call(self._unprepare, encoding.UNPREPARE, claims))
        _check_complete(encoding.UNPREPARE, claims, results)
        return results

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        """Return the stream of the driver's health messages, or None if the driver does not list the service.

        The iterator raises PluginCallError when the stream breaks, HealthNotSupported if it does not exist.
        """
        return self.watch_health(self.health_version) if self.health_version is not None else None

    async def watch_health(self, version: HealthVersion) -> AsyncIterator[Sequence[DeviceHealth]]:
        """Return the stream of a version of the health service, whether the driver lists it or not."""
        watch = self._channel.unary_stream(
            f"/{version.service}/{encoding.WATCH}", request_serializer=grpc_codec.encode, response_deserializer=bytes
        )
        call = watch(version.wire.NodeWatchResourcesRequest())
        self._streams.add(call)
        failure = None
        try:
            async for data in call:
                yield encoding.decode_health(grpc_codec.decode(version.wire.NodeWatchResourcesResponse, data))
        except grpc.aio.AioRpcError as error:
            failure = call_error(error, self.info.endpoint)
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                failure = HealthNotSupported(str(failure))
        except grpc_codec.InvalidMessage as error:
            failure = invalid_message_error(error)
        finally:
            call.cancel()
            self._streams.discard(call)
            del call
        if failure:
            raise failure

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""
        # Closing a channel ends calls that a task is waiting for, but not streams that are between two messages.
        for stream in self._streams:
            stream.cancel()
        await self._channel.close(None)
        # Not cancelled immediately: the core's response to the last state query needs the event loop. It arrives when
        # no call references the channel.
        await asyncio.wait((self._connection_task,), timeout=_CLOSE_SECONDS)
        self._connection_task.cancel()
        await asyncio.wait((self._connection_task,))
        self._set_connected(False)

    async def __aenter__(self) -> PluginClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _method(self, name: str) -> _Method:
        return self._channel.unary_unary(
            f"/{self.version.service}/{name}", request_serializer=grpc_codec.encode, response_deserializer=bytes
        )

    async def _call(self, method: _Method, name: str, claims: Sequence[ClaimRef]) -> Any:
        request = encoding.encode_claims(self.version, name, claims)
        call = method(request, timeout=self._seconds)
        try:
            return grpc_codec.decode(getattr(self.version.wire, name + "Response"), await call)
        except grpc.aio.AioRpcError as error:
            failure = call_error(error, self.info.endpoint)
        except grpc_codec.InvalidMessage as error:
            failure = invalid_message_error(error)
        # The gRPC error references its call, which keeps the channel open while the error is referenced:
        # PluginCallError must reference neither.
        del call
        raise failure

    async def _keep_connected(self) -> None:
        """Keep the channel connected and track its state: the C core connects only on request."""
        while (state := self._channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.SHUTDOWN:
            self._set_connected(state is grpc.ChannelConnectivity.READY)
            await self._channel.wait_for_state_change(state)

    def _set_connected(self, connected: bool) -> None:
        if connected is not self.is_connected:
            self.is_connected = connected
            self.on_connection()


def _check_complete(method: str, claims: Sequence[ClaimRef], results: Mapping[str, object]) -> None:
    """Raise PluginCallError, with the kubelet's text, if the results are not for exactly the requested claims."""
    requested = {claim.uid for claim in claims}
    for uid in results:
        if uid not in requested:
            raise PluginCallError(f"{method} returned result for unknown claim UID {uid}")
    if missing := len(requested) - len(results):
        raise PluginCallError(f"{method} skipped {missing} ResourceClaims")
