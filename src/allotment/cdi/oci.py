"""Application of CDI edits to the configuration of an OCI container (``config.json``), as in container runtimes.

Device nodes without type or numbers get those of the host. For a device that a container may open, the configuration
needs a device node and a rule of the devices cgroup.
"""

from __future__ import annotations

import copy
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from allotment.cdi.spec import ContainerEdits, DeviceNode, Hook, Mount, depth
from allotment.model.trees import Tree

_DEVICE_TYPES: Final = ((stat.S_ISBLK, "b"), (stat.S_ISCHR, "c"), (stat.S_ISFIFO, "p"))


class DeviceNumbers(NamedTuple):
    """Type (``b``, ``c`` or ``p``) and numbers of a device file."""

    type: str
    major: int
    minor: int


class InjectionError(Exception):
    """Raised if a device node cannot be created; the text has its path and the reason."""


def read_device_numbers(path: str) -> DeviceNumbers:
    """Return the type and numbers of a device file of this host. Raises InjectionError."""
    try:
        status = Path(path).stat()
    except OSError as error:
        raise InjectionError(f"device node {path}: {error.strerror}") from None
    for is_kind, letter in _DEVICE_TYPES:
        if is_kind(status.st_mode):
            return DeviceNumbers(letter, os.major(status.st_rdev), os.minor(status.st_rdev))
    raise InjectionError(f"device node {path}: expected a device file")


def apply(
    config: Tree, edits: ContainerEdits, read_numbers: Callable[[str], DeviceNumbers] = read_device_numbers
) -> Tree:
    """Return a copy of the configuration with the edits applied. Raises InjectionError."""
    config = copy.deepcopy(config)
    process = config.setdefault("process", {})
    linux = config.setdefault("linux", {})
    if edits.env:
        process["env"] = _merge_env(process.get("env") or (), edits.env)
    user = process.get("user") or {}
    for node in edits.device_nodes:
        _add_device_node(linux, node, user, read_numbers)
    if edits.net_devices:
        nets = linux.setdefault("netDevices", {})
        nets.update((net.host_interface_name, {"name": net.name}) for net in edits.net_devices)
    if edits.mounts:
        config["mounts"] = _merge_mounts(config.get("mounts") or (), edits.mounts)
    for hook in edits.hooks:
        config.setdefault("hooks", {}).setdefault(hook.hook_name, []).append(_hook(hook))
    if edits.intel_rdt is not None:
        linux["intelRdt"] = msgspec.json.decode(msgspec.json.encode(edits.intel_rdt))
    if gids := [gid for gid in edits.additional_gids if gid]:
        user = process.setdefault("user", {})
        user["additionalGids"] = list(dict.fromkeys((*user.get("additionalGids", ()), *gids)))
    return config


def _merge_env(env: Iterable[str], edits: Iterable[str]) -> list[str]:
    variables = {variable.partition("=")[0]: variable for variable in env}
    variables.update((variable.partition("=")[0], variable) for variable in edits)
    return list(variables.values())


def _add_device_node(
    linux: Tree, node: DeviceNode, user: Mapping[str, int], read_numbers: Callable[[str], DeviceNumbers]
) -> None:
    numbers = _complete(node, read_numbers)
    entry: Tree = {"path": node.path, "type": numbers.type}
    if numbers.type != "p":
        entry |= {"major": numbers.major, "minor": numbers.minor}
    if node.file_mode is not None:
        entry["fileMode"] = node.file_mode
    for field, value in (("uid", node.uid), ("gid", node.gid)):
        # Owned by the container's user, so that the user can open it; root always can.
        owner = user.get(field) or None if value is None else value
        if owner is not None:
            entry[field] = owner
    linux["devices"] = [entry for entry in linux.get("devices") or () if entry.get("path") != node.path] + [entry]
    if numbers.type in ("b", "c") and node.permissions != "none":
        rule = {"allow": True, "type": numbers.type, "major": numbers.major, "minor": numbers.minor}
        rules = linux.setdefault("resources", {}).setdefault("devices", [])
        rules.append({**rule, "access": node.permissions or "rwm"})


def _complete(node: DeviceNode, read_numbers: Callable[[str], DeviceNumbers]) -> DeviceNumbers:
    if node.type and (node.major or node.type == "p"):
        return DeviceNumbers(node.type, node.major, node.minor)
    numbers = read_numbers(node.host_path or node.path)
    if node.type and node.type != numbers.type:
        raise InjectionError(
            f"device node {node.path}: expected type {node.type!r}, found {numbers.type!r} on the host"
        )
    return numbers._replace(major=node.major, minor=node.minor) if node.major else numbers


def _merge_mounts(mounts: Iterable[Tree], edits: Iterable[Mount]) -> list[Tree]:
    by_destination = {mount["destination"]: mount for mount in mounts}
    for mount in edits:
        by_destination.pop(mount.container_path, None)
        entry: Tree = {"destination": mount.container_path, "source": mount.host_path}
        if mount.type:
            entry["type"] = mount.type
        if mount.options:
            entry["options"] = list(mount.options)
        by_destination[mount.container_path] = entry
    return sorted(by_destination.values(), key=lambda mount: depth(mount["destination"]))


def _hook(hook: Hook) -> Tree:
    entry: Tree = {"path": hook.path}
    for field, values in (("args", hook.args), ("env", hook.env)):
        if values:
            entry[field] = list(values)
    return entry if hook.timeout is None else {**entry, "timeout": hook.timeout}
