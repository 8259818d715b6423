"""The kubelet's side of a driver: a :class:`.Plugin` that is asked over its socket.

As in a kubelet, the connection comes about by itself, is made anew whenever it breaks, and says whether it stands; a
driver that is away is therefore an error of the call, never of making the value.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc

from allotment import grpc_codec
from allotment.kubelet_plugin import encoding
from allotment.kubelet_plugin.encoding import Version
from allotment.kubelet_plugin.grpc_errors import call_error, invalid_message_error
from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, PluginCallError, PrepareResult
from allotment.kubelet_plugin.wire import health_v1alpha1_pb2
from allotment.model.quoting import quote

if TYPE_CHECKING:
    # Generic to the type checker only.
    _Method = grpc.aio.UnaryUnaryMultiCallable[Any, bytes]

#: How long a driver has for one call, in seconds: half of the time after which a kubelet tries again.
CALL_SECONDS: Final = 45.0

#: How long the C core may take to let a channel go.
_CLOSE_SECONDS: Final = 0.2

_OPTIONS: Final = (
    # Channels to one path would otherwise share its failures: a plugin that came back would wait out the old one's.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 5000),
)


class PluginInfo(NamedTuple):
    """How a plugin introduced itself."""

    name: str
    endpoint: Path
    versions: tuple[str, ...]
    type: str = "DRAPlugin"


class UnsupportedVersions(Exception):
    """None of the services that a plugin lists is one that we call; the text is a kubelet's."""


def choose_version(versions: Sequence[str]) -> Version:
    """The first in the plugin's list that is known: the order is the plugin's wish. Raises VersionsUnknown.

    >>> chosen(("v1beta1.DRAPlugin", "v1.DRAPlugin")).name
    'v1beta1.DRAPlugin'
    """
    if not versions:
        raise UnsupportedVersions("empty list of supported gRPC services (aka supported versions)")
    known = {version.name: version for version in encoding.VERSIONS}
    for name in versions:
        if name in known:
            return known[name]
    # Plugins from before Kubernetes 1.32 list numbers ("1.0.0") where services belong.
    raise UnsupportedVersions(
        f"none of services supported by the plugin ({_quoted(versions)}) "
        f"are supported by the kubelet ({_quoted(known)})"
    )


def _quoted(names: Sequence[str] | Mapping[str, Any]) -> str:
    return "[" + " ".join(quote(name) for name in names) + "]"


def open_channel(path: Path) -> grpc.aio.Channel:
    """A channel to a unix socket; connects when it is used."""
    return grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS)


class PluginClient:
    """A driver behind a socket, which need not be there yet. To be closed."""

    def __init__(self, info: PluginInfo, *, seconds: float = CALL_SECONDS) -> None:
        """``seconds``: how long a call may take. Raises VersionsUnknown."""
        self.info = info
        self.version = choose_version(info.versions)
        #: Whether the connection stands.
        self.is_connected = False
        #: Called after each change of ``connected``.
        self.on_connection: Callable[[], None] = lambda: None
        self._seconds = seconds
        self._channel = open_channel(info.endpoint)
        self._prepare = self._method(encoding.PREPARE)
        self._unprepare = self._method(encoding.UNPREPARE)
        self._streams: set[grpc.aio.UnaryStreamCall[Any, Any]] = set()
        self._connection_task = asyncio.create_task(self._keep_connected())

    @property
    def name(self) -> str:
        """The driver's name."""
        return self.info.name

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        """Ask the driver; answers by claim uid, one for every claim and for no other. Raises CallFailed."""
        response = await self._call(self._prepare, encoding.PREPARE, claims)
        answers = encoding.decode_prepare_response(self.version, response)
        _check_complete(encoding.PREPARE, claims, answers)
        return answers

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Ask the driver; the errors by claim uid, one for every claim and for no other. Raises CallFailed."""
        answers = encoding.decode_unprepare_response(await self._call(self._unprepare, encoding.UNPREPARE, claims))
        _check_complete(encoding.UNPREPARE, claims, answers)
        return answers

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        """What the driver tells of its devices, from now on; the iterator raises CallFailed when the stream breaks.

        None where the driver does not list the service.
        """
        return self._watch() if encoding.HEALTH in self.info.versions else None

    async def close(self) -> None:
        """Close the connection; calls under way fail."""
        # A channel ends the calls that some task waits for right now, and forgets streams between two messages.
        for stream in self._streams:
            stream.cancel()
        await self._channel.close(None)
        # Not cancelled at once: the core's answer to what it was asked last should find its event loop. It comes when
        # nobody holds a call of the channel any more.
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
        # The error knows its call, which keeps the channel open for as long as somebody keeps the error: neither it nor
        # the call goes along with ours.
        del call
        raise failure

    async def _watch(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        watch = self._channel.unary_stream(
            f"/{encoding.HEALTH}/{encoding.WATCH}", request_serializer=grpc_codec.encode, response_deserializer=bytes
        )
        call = watch(health_v1alpha1_pb2.NodeWatchResourcesRequest())
        self._streams.add(call)
        failure = None
        try:
            async for data in call:
                yield encoding.decode_health(grpc_codec.decode(health_v1alpha1_pb2.NodeWatchResourcesResponse, data))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                failure = call_error(error, self.info.endpoint)
        except grpc_codec.InvalidMessage as error:
            failure = invalid_message_error(error)
        finally:
            call.cancel()
            self._streams.discard(call)
            del call
        if failure:
            raise failure

    async def _keep_connected(self) -> None:
        """Keep the connection up, and keep track of it: the C core makes one only for who asks."""
        while (state := self._channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.SHUTDOWN:
            self._set_connected(state is grpc.ChannelConnectivity.READY)
            await self._channel.wait_for_state_change(state)

    def _set_connected(self, connected: bool) -> None:
        if connected is not self.is_connected:
            self.is_connected = connected
            self.on_connection()


def _check_complete(method: str, claims: Sequence[ClaimRef], answers: Mapping[str, object]) -> None:
    """Raises CallFailed as a kubelet does where the answers are not for the claims that were asked for."""
    asked = {claim.uid for claim in claims}
    for uid in answers:
        if uid not in asked:
            raise PluginCallError(f"{method} returned result for unknown claim UID {uid}")
    if missing := len(asked) - len(answers):
        raise PluginCallError(f"{method} skipped {missing} ResourceClaims")
