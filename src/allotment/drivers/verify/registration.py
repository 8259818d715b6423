"""Registration: how a kubelet comes to know a driver."""

from __future__ import annotations

import re
from pathlib import Path

from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.kubelet_plugin.encoding import HEALTH, VERSIONS
from allotment.kubelet_plugin.messages import PluginCallError
from allotment.kubelet_plugin.registration import RegistrationFailed, get_info, register
from allotment.kubelet_plugin.sockets import accepts_connections
from allotment.model.validation import names

_HANDSHAKE = "kubelet's plugin watcher: dial 10 s, GetInfo 1 s, NotifyRegistrationStatus 5 s"
_SERVICES = "KEP-4381; kubelet takes the first entry of supported_versions that it knows"
#: Of newer kubelets; none of them calls a driver by it alone.
_NEWER_SERVICES = ("v1.DRAResourceHealth",)


def _registration(session: DriverSession) -> Path:
    if session.found.registration is None:
        raise CheckSkipped("no registration socket leads to this one: give the driver's *-reg.sock instead")
    return session.found.registration


async def _get_info(session: DriverSession) -> str:
    socket = _registration(session)
    try:
        info = await get_info(socket)
    except RegistrationFailed as error:
        raise CheckFailed(
            str(error), "answer GetInfo within 1 s, from a value made before the socket is bound"
        ) from None
    if info.type != "DRAPlugin":
        raise CheckFailed(f"type {info.type!r}", "set type to DRAPlugin: kubelets have no handler for others")
    if wrong := next(iter(names.driver_name(info.name, "name")), None):
        raise CheckFailed(str(wrong), "use the name of the driver in its ResourceSlices")
    if not info.endpoint.is_absolute():
        raise CheckFailed(
            f"endpoint {str(info.endpoint)!r}",
            "send the absolute path: a kubelet would look for a relative one in its own working directory",
            "an absolute path",
        )
    if not accepts_connections(info.endpoint):
        raise CheckFailed(
            f"nobody answers at endpoint {info.endpoint}", "listen there before the registration socket appears"
        )
    return f"{info.name} at {info.endpoint}"


async def _lists_services(session: DriverSession) -> str:
    _registration(session)
    known = [version.name for version in VERSIONS]
    listed = session.info.versions
    if not any(name in known for name in listed):
        hint = "numbers such as 1.0.0 are not understood since 1.32; " if any(map(_is_number, listed)) else ""
        raise CheckFailed(f"supported_versions {_list(listed)}", f"{hint}list {known[0]}", f"one of {', '.join(known)}")
    for name in session.versions():
        try:
            await session.plugin(name).prepare([])
        except PluginCallError as error:
            if "code = Unimplemented " in str(error):
                raise CheckFailed(f"{name}: {error}", "serve every service that is listed, or do not list it") from None
            raise CheckFailed(f"{name}: {error}", "answer an empty request with an empty map") from None
    others = [name for name in listed if name not in (*known, HEALTH, *_NEWER_SERVICES)]
    return _list(listed) + (f"; kubelets pass over {', '.join(others)}" if others else "")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"v?\d+(\.\d+)*", text) is not None


def _list(listed: tuple[str, ...]) -> str:
    return ", ".join(listed) or "none"


async def _accepts_status(session: DriverSession) -> str:
    try:
        # The kit keeps no list of plugins.
        await register(_registration(session), add=lambda info: None, remove=lambda: None)
    except RegistrationFailed as error:
        raise CheckFailed(str(error), "answer NotifyRegistrationStatus with an empty message") from None
    return "told that it is registered"


async def _empty_call(session: DriverSession) -> str:
    plugin = session.plugin()
    try:
        prepared, unprepared = await plugin.prepare([]), await plugin.unprepare([])
    except PluginCallError as error:
        raise CheckFailed(str(error), "answer a request without claims with an empty map") from None
    return f"{len(prepared)} and {len(unprepared)} answers"


CHECKS = (
    DriverCheck(
        "get-info", "GetInfo tells type DRAPlugin, the driver's name, and an absolute endpoint that answers",
        _HANDSHAKE, _get_info,
    ),
    DriverCheck(
        "versions", "at least one service that kubelets know is listed, and all that are listed answer",
        _SERVICES, _lists_services,
    ),
    DriverCheck("register", "the driver accepts the news that it is registered", _HANDSHAKE, _accepts_status),
    DriverCheck("empty-call", "a request without claims is answered without claims", "KEP-4381, gRPC API", _empty_call),
)  # fmt: skip
