"""Checks of the registration with a kubelet."""

from __future__ import annotations

import re
from pathlib import Path

from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.kubelet_plugin.encoding import HEALTH_VERSIONS, VERSIONS
from allotment.kubelet_plugin.messages import PluginCallError
from allotment.kubelet_plugin.registration import RegistrationFailed, get_info, register
from allotment.kubelet_plugin.sockets import accepts_connections
from allotment.model.validation import names

_HANDSHAKE = "kubelet's plugin watcher; timeouts: 10 s to connect, 1 s for GetInfo, 5 s for NotifyRegistrationStatus"
_SERVICES = "KEP-4381; kubelet uses the first entry of supported_versions that it supports"


def _registration(session: DriverSession) -> Path:
    if session.sockets.registration is None:
        raise CheckSkipped("the registration socket is unknown: pass the driver's *-reg.sock instead")
    return session.sockets.registration


async def _get_info(session: DriverSession) -> str:
    socket = _registration(session)
    try:
        info = await get_info(socket)
    except RegistrationFailed as error:
        raise CheckFailed(
            str(error), "respond to GetInfo within 1 s, with a value that was created before the socket was bound"
        ) from None
    if info.type != "DRAPlugin":
        raise CheckFailed(f"type {info.type!r}", "set type to DRAPlugin: kubelets have no handler for other types")
    if wrong := next(iter(names.driver_name(info.name, "name")), None):
        raise CheckFailed(str(wrong), "use the driver name from its ResourceSlices")
    if not info.endpoint.is_absolute():
        raise CheckFailed(
            f"endpoint {str(info.endpoint)!r}",
            "send an absolute path: a relative one would be resolved in the kubelet's working directory",
            "an absolute path",
        )
    if not accepts_connections(info.endpoint):
        raise CheckFailed(
            f"no process is listening on endpoint {info.endpoint}",
            "listen on the endpoint before the registration socket is created",
        )
    return f"{info.name} at {info.endpoint}"


async def _lists_services(session: DriverSession) -> str:
    _registration(session)
    supported = [version.name for version in VERSIONS]
    listed = session.info.versions
    if not any(name in supported for name in listed):
        hint = ""
        if any(map(_is_number, listed)):
            hint = "version numbers such as 1.0.0 are not supported in Kubernetes 1.32 or later; "
        raise CheckFailed(
            f"supported_versions {_list(listed)}", f"{hint}list {supported[0]}", f"one of {', '.join(supported)}"
        )
    for name in session.versions():
        try:
            await session.plugin(name).prepare([])
        except PluginCallError as error:
            if "code = Unimplemented " in str(error):
                raise CheckFailed(f"{name}: {error}", "serve every listed service") from None
            raise CheckFailed(f"{name}: {error}", "respond to an empty request with an empty map") from None
    known = {*supported, *(version.service for version in HEALTH_VERSIONS)}
    ignored = [name for name in listed if name not in known]
    return _list(listed) + (f"; kubelets ignore {', '.join(ignored)}" if ignored else "")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"v?\d+(\.\d+)*", text) is not None


def _list(listed: tuple[str, ...]) -> str:
    return ", ".join(listed) or "none"


async def _accepts_status(session: DriverSession) -> str:
    try:
        # There is no registry of plugins to update.
        await register(_registration(session), add=lambda info: None, remove=lambda: None)
    except RegistrationFailed as error:
        raise CheckFailed(str(error), "respond to NotifyRegistrationStatus with an empty message") from None
    return "notified of the registration"


async def _empty_call(session: DriverSession) -> str:
    plugin = session.plugin()
    try:
        prepared, unprepared = await plugin.prepare([]), await plugin.unprepare([])
    except PluginCallError as error:
        raise CheckFailed(str(error), "respond to an empty request with an empty map") from None
    return f"{len(prepared)} prepare and {len(unprepared)} unprepare responses"


CHECKS = (
    DriverCheck(
        "get-info", "GetInfo returns type DRAPlugin, the driver's name, and the absolute path of its endpoint",
        _HANDSHAKE, _get_info,
    ),
    DriverCheck(
        "versions", "at least one listed service is supported by kubelets, and all listed services respond",
        _SERVICES, _lists_services,
    ),
    DriverCheck("register", "the driver accepts the registration notification", _HANDSHAKE, _accepts_status),
    DriverCheck(
        "empty-call", "a request without claims gets a response without claims", "KEP-4381, gRPC API", _empty_call
    ),
)  # fmt: skip
