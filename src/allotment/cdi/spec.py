"""What a CDI file says: devices of one kind, and the edits that a container needs for each.

The values here are the file's, with its own field names in JSON. Two rules make them more than data. A file must carry
the lowest version that its fields allow, because runtimes refuse numbers that they do not know; and edits merge: later
ones replace earlier ones of the same variable or path, so that several devices can be given to one container.

Specification: Container Device Interface 1.1.0; what its own library accepts counts where its prose differs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from allotment.cdi.naming import device_problem, kind_problem
from allotment.model.loading import json_parser, yaml_parser
from allotment.model.loading.marks import Duplicate, Fault

HOOK_NAMES: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
#: Versions that a file may carry.
VERSIONS: Final = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_NODE_TYPES: Final = frozenset(("", "b", "c", "u", "p"))
_PERMISSIONS: Final = frozenset("rwm")


class InvalidSpec(ValueError):
    """Raised for a CDI specification that runtimes would refuse; the text says which field, and what it should be."""


class _CdiObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What all parts of a file have in common: camelCase names, nothing written that is not set, nothing unknown."""


class DeviceNode(_CdiObject, frozen=True):
    """A device file. Without a type or numbers the runtime reads them from the host when it makes the container."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class Mount(_CdiObject, frozen=True):
    """A file or folder of the host in the container."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""


class Hook(_CdiObject, frozen=True):
    """A program of the host, run at a point of the container's life. ``args`` begins with the program's name."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class NetDevice(_CdiObject, frozen=True):
    """A network interface of the host, moved into the container under ``name``."""

    host_interface_name: str
    name: str


class IntelRdt(_CdiObject, frozen=True):
    """Cache and memory bandwidth of Intel's Resource Director Technology."""

    clos_id: str = msgspec.field(default="", name="closID")
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] | None = None
    enable_monitoring: bool = False


class ContainerEdits(_CdiObject, frozen=True):
    """What changes in a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    additional_gids: tuple[int, ...] = ()
    intel_rdt: IntelRdt | None = None

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return self != _NO_EDITS

    def merged(self, other: ContainerEdits) -> ContainerEdits:
        """These edits, then ``other``."""
        return merge((self, other))


_NO_EDITS: Final = ContainerEdits()


class CdiDevice(_CdiObject, frozen=True):
    """A device of a file."""

    name: str
    container_edits: ContainerEdits
    annotations: Mapping[str, str] = {}


class Spec(_CdiObject, frozen=True):
    """A whole file. ``container_edits`` are for a container with any of the devices.

    ``cdi_version``: as a file that was read carries it; empty means the lowest possible, and is what to write.
    """

    kind: str
    devices: tuple[CdiDevice, ...]
    container_edits: ContainerEdits = ContainerEdits()
    cdi_version: str = ""
    annotations: Mapping[str, str] = {}


def merge(edits: Iterable[ContainerEdits]) -> ContainerEdits:
    """All edits as one, as a runtime would apply them one after another.

    A variable keeps its place and takes its last value; a device or mount at a path is replaced by the last, and
    mounts stand by depth, so that nothing is mounted under what hides it.

    >>> merge((ContainerEdits(env=("A=1", "B=1")), ContainerEdits(env=("A=2",)))).env
    ('A=2', 'B=1')
    """
    all_edits = [each for each in edits if each]
    if len(all_edits) <= 1:
        all_edits = [_NO_EDITS, *all_edits]
    env: dict[str, str] = {}
    nodes: dict[str, DeviceNode] = {}
    mounts: dict[str, Mount] = {}
    nets: dict[str, NetDevice] = {}
    for each in all_edits:
        env.update((variable.partition("=")[0], variable) for variable in each.env)
        for node in each.device_nodes:
            nodes.pop(node.path, None)
            nodes[node.path] = node
        for mount in each.mounts:
            mounts.pop(mount.container_path, None)
            mounts[mount.container_path] = mount
        nets.update((net.host_interface_name, net) for net in each.net_devices)
    return ContainerEdits(
        env=tuple(env.values()),
        device_nodes=tuple(nodes.values()),
        mounts=tuple(sorted(mounts.values(), key=lambda mount: depth(mount.container_path))),
        hooks=tuple(hook for each in all_edits for hook in each.hooks),
        net_devices=tuple(nets.values()),
        additional_gids=tuple(dict.fromkeys(gid for each in all_edits for gid in each.additional_gids if gid)),
        intel_rdt=next((each.intel_rdt for each in reversed(all_edits) if each.intel_rdt is not None), None),
    )


def depth(path: str) -> int:
    """How deep a path of a container lies.

    >>> depth("/dev/shm/"), depth("/")
    (2, 1)
    """
    return posixpath.normpath(path).count("/")


def minimum_version(spec: Spec) -> str:
    """The lowest version that knows everything the spec uses.

    >>> minimum_version(Spec("example.com/gpu", (Device("7f0c-gpu", ContainerEdits(env=("A=1",))),)))
    '0.5.0'
    """
    edits = [spec.container_edits, *(device.container_edits for device in spec.devices)]
    rdts = [each.intel_rdt for each in edits if each.intel_rdt is not None]
    if any(each.net_devices for each in edits) or any(r.schemata is not None or r.enable_monitoring for r in rdts):
        return "1.1.0"
    if rdts or any(each.additional_gids for each in edits):
        return "0.7.0"
    if spec.annotations or any(device.annotations for device in spec.devices) or "." in spec.kind.partition("/")[2]:
        return "0.6.0"
    if any(device.name[:1].isdigit() for device in spec.devices):
        return "0.5.0"
    if any(node.host_path for each in edits for node in each.device_nodes):
        return "0.5.0"
    if any(mount.type for each in edits for mount in each.mounts):
        return "0.4.0"
    return "0.3.0"


def validate(spec: Spec) -> None:
    """Judge a spec as runtimes do. Raises InvalidSpec with all faults."""
    if faults := list(_problems(spec)):
        raise InvalidSpec("; ".join(faults))


def encode(spec: Spec) -> bytes:
    """The file, as JSON. Raises InvalidSpec."""
    validate(spec)
    tree = {"cdiVersion": spec.cdi_version or minimum_version(spec), **msgspec.to_builtins(spec)}
    return msgspec.json.format(msgspec.json.encode(tree), indent=2) + b"\n"


def decode(data: bytes, source: str = "") -> Spec:
    """The spec of a file, JSON or YAML, read strictly. ``source``: its name, for messages. Raises InvalidSpec."""
    try:
        spec = msgspec.convert(_without_nulls(_tree(data.decode("utf-8-sig"))), Spec)
        if not spec.cdi_version:
            raise InvalidSpec(f"cdiVersion: wanted one of {', '.join(VERSIONS)}, found none")
        validate(spec)
    except UnicodeDecodeError as error:
        fault = f"not UTF-8: {error.reason} at byte {error.start}"
    except Fault as error:
        fault = f"line {error.line + 1}: {error.message}"
    except (InvalidSpec, msgspec.ValidationError) as error:
        fault = str(error)
    else:
        return spec
    raise InvalidSpec(f"{source}: {fault}" if source else fault)


def _tree(text: str) -> Any:
    read: list[tuple[Any, Sequence[Duplicate]]] = []
    start = json_parser.start(text)
    with suppress(Fault):  # what opens like JSON may be YAML; if it is neither, YAML's words are as good
        read = (
            [(tree, duplicates) for tree, _, duplicates in json_parser.read(text, start)] if start is not None else []
        )
    read = read or [(each.tree, each.duplicates) for each in yaml_parser.read(text)]
    if len(read) != 1:
        raise InvalidSpec(f"wanted one document, found {len(read)}")
    tree, duplicates = read[0]
    if duplicates:
        raise InvalidSpec(f"line {duplicates[0].line + 1}: {duplicates[0].path} stands twice")
    return tree


def _without_nulls(value: Any) -> Any:
    """A tree without its nulls: Go takes null for not set."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _problems(spec: Spec) -> Iterator[str]:
    least, told = minimum_version(spec), spec.cdi_version.removeprefix("v")
    if told and told not in VERSIONS:
        yield f"cdiVersion: wanted one of {', '.join(VERSIONS)}, found {spec.cdi_version!r}"
    elif told and VERSIONS.index(told) < VERSIONS.index(least):
        yield f"cdiVersion: wanted at least {least} for what the file uses, found {spec.cdi_version}"
    if fault := kind_problem(spec.kind):
        yield f"kind: {fault}"
    if not spec.devices:
        yield "devices: wanted at least one"
    yield from _edit_problems(spec.container_edits, "containerEdits")
    seen: set[str] = set()
    for number, device in enumerate(spec.devices):
        path = f"devices[{number}]"
        if fault := device_problem(device.name):
            yield f"{path}.name: {fault}"
        if device.name in seen:
            yield f"{path}.name: {device.name!r} stands twice"
        seen.add(device.name)
        if not device.container_edits:
            yield f"{path}.containerEdits: wanted at least one edit"
        yield from _edit_problems(device.container_edits, f"{path}.containerEdits")


def _edit_problems(edits: ContainerEdits, path: str) -> Iterator[str]:
    yield from _env_problems(edits.env, f"{path}.env")
    for i, node in enumerate(edits.device_nodes):
        at = f"{path}.deviceNodes[{i}]"
        if not node.path:
            yield f"{at}.path: wanted a path"
        if node.type not in _NODE_TYPES:
            yield f"{at}.type: wanted b, c, u or p, found {node.type!r}"
        if node.permissions != "none" and not _PERMISSIONS.issuperset(node.permissions):
            yield f"{at}.permissions: wanted letters of rwm, found {node.permissions!r}"
    for i, mount in enumerate(edits.mounts):
        for field, value in (("hostPath", mount.host_path), ("containerPath", mount.container_path)):
            if not value:
                yield f"{path}.mounts[{i}].{field}: wanted a path"
    for i, hook in enumerate(edits.hooks):
        at = f"{path}.hooks[{i}]"
        if hook.hook_name not in HOOK_NAMES:
            yield f"{at}.hookName: wanted one of {', '.join(HOOK_NAMES)}, found {hook.hook_name!r}"
        if not hook.path.startswith("/"):
            yield f"{at}.path: wanted an absolute path, found {hook.path!r}"
        if hook.timeout is not None and hook.timeout <= 0:
            yield f"{at}.timeout: wanted seconds above 0, found {hook.timeout}"
        yield from _env_problems(hook.env, f"{at}.env")
    for field in ("host_interface_name", "name"):
        names = [getattr(net, field) for net in edits.net_devices]
        if "" in names or len(set(names)) < len(names):
            yield f"{path}.netDevices: wanted names that are not empty and stand once each, found {names}"
    if edits.intel_rdt is not None:
        clos = edits.intel_rdt.clos_id
        if clos != "/" and (clos in (".", "..") or len(clos) >= 4096 or "/" in clos or "\n" in clos):
            yield f"{path}.intelRdt.closID: wanted a file's name or '/', found {clos!r}"


def _env_problems(env: tuple[str, ...], path: str) -> Iterator[str]:
    for number, variable in enumerate(env):
        if variable.find("=") <= 0:
            yield f"{path}[{number}]: wanted NAME=value, found {variable!r}"
