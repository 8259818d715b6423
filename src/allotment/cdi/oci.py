"""CDI edits in the configuration of an OCI container (``config.json``), as runtimes apply them.

Device nodes without a type or numbers take the host's; a device that a container may open needs a node and also a rule
of the devices cgroup.
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
    """A device file of the host: ``b``, ``c`` or ``p``, and its numbers."""

    type: str
    major: int
    minor: int


class InjectionError(Exception):
    """Raised when a device node cannot be made; the text says which, and why."""


def read_device_numbers(path: str) -> DeviceNumbers:
    """Look at a device file of this host. Raises NotInjectable."""
    try:
        status = Path(path).stat()
    except OSError as error:
        raise InjectionError(f"device node {path}: {error.strerror}") from None
    for is_kind, letter in _DEVICE_TYPES:
        if is_kind(status.st_mode):
            return DeviceNumbers(letter, os.major(status.st_rdev), os.minor(status.st_rdev))
    raise InjectionError(f"device node {path}: wanted a device file, found another")


def apply(config: Tree, edits: ContainerEdits, facts: Callable[[str], DeviceNumbers] = read_device_numbers) -> Tree:
    """The configuration with the edits; the given one stays as it is. Raises NotInjectable."""
    config = copy.deepcopy(config)
    process = config.setdefault("process", {})
    linux = config.setdefault("linux", {})
    if edits.env:
        process["env"] = _environment(process.get("env") or (), edits.env)
    user = process.get("user") or {}
    for node in edits.device_nodes:
        _add_device_node(linux, node, user, facts)
    if edits.net_devices:
        nets = linux.setdefault("netDevices", {})
        nets.update((net.host_interface_name, {"name": net.name}) for net in edits.net_devices)
    if edits.mounts:
        config["mounts"] = _mounts(config.get("mounts") or (), edits.mounts)
    for hook in edits.hooks:
        config.setdefault("hooks", {}).setdefault(hook.hook_name, []).append(_hook(hook))
    if edits.intel_rdt is not None:
        linux["intelRdt"] = msgspec.json.decode(msgspec.json.encode(edits.intel_rdt))
    if gids := [gid for gid in edits.additional_gids if gid]:
        user = process.setdefault("user", {})
        user["additionalGids"] = list(dict.fromkeys((*user.get("additionalGids", ()), *gids)))
    return config


def _environment(before: Iterable[str], edits: Iterable[str]) -> list[str]:
    variables = {variable.partition("=")[0]: variable for variable in before}
    variables.update((variable.partition("=")[0], variable) for variable in edits)
    return list(variables.values())


def _add_device_node(
    linux: Tree, node: DeviceNode, user: Mapping[str, int], facts: Callable[[str], DeviceNumbers]
) -> None:
    told = _complete(node, facts)
    entry: Tree = {"path": node.path, "type": told.type}
    if told.type != "p":
        entry |= {"major": told.major, "minor": told.minor}
    if node.file_mode is not None:
        entry["fileMode"] = node.file_mode
    for field, value in (("uid", node.uid), ("gid", node.gid)):
        # Whoever the container runs as can open it; root can anyway.
        owner = user.get(field) or None if value is None else value
        if owner is not None:
            entry[field] = owner
    linux["devices"] = [each for each in linux.get("devices") or () if each.get("path") != node.path] + [entry]
    if told.type in ("b", "c") and node.permissions != "none":
        rule = {"allow": True, "type": told.type, "major": told.major, "minor": told.minor}
        rules = linux.setdefault("resources", {}).setdefault("devices", [])
        rules.append({**rule, "access": node.permissions or "rwm"})


def _complete(node: DeviceNode, facts: Callable[[str], DeviceNumbers]) -> DeviceNumbers:
    if node.type and (node.major or node.type == "p"):
        return DeviceNumbers(node.type, node.major, node.minor)
    found = facts(node.host_path or node.path)
    if node.type and node.type != found.type:
        raise InjectionError(f"device node {node.path}: wanted type {node.type!r}, found {found.type!r} on the host")
    return found._replace(major=node.major, minor=node.minor) if node.major else found


def _mounts(before: Iterable[Tree], edits: Iterable[Mount]) -> list[Tree]:
    mounts = {mount["destination"]: mount for mount in before}
    for mount in edits:
        mounts.pop(mount.container_path, None)
        entry: Tree = {"destination": mount.container_path, "source": mount.host_path}
        if mount.type:
            entry["type"] = mount.type
        if mount.options:
            entry["options"] = list(mount.options)
        mounts[mount.container_path] = entry
    return sorted(mounts.values(), key=lambda mount: depth(mount["destination"]))


def _hook(hook: Hook) -> Tree:
    entry: Tree = {"path": hook.path}
    for field, values in (("args", hook.args), ("env", hook.env)):
        if values:
            entry[field] = list(values)
    return entry if hook.timeout is None else {**entry, "timeout": hook.timeout}
