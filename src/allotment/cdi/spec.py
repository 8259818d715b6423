"""The content of a CDI file: devices of one kind, and the container edits for each.

The values have the file's field names in JSON. A file must carry the lowest version that its fields allow, because
runtimes reject versions that they do not support. Edits can be merged: later ones replace earlier ones of the same
variable or path, so that a container can have several devices.

Specification: Container Device Interface 1.1.0; where its text and the reference library differ, the library counts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from allotment.cdi.naming import device_problem, kind_problem
from allotment.decoding import decodable
from allotment.model.loading import json_parser, yaml_parser
from allotment.model.loading.marks import DocumentError, DuplicateKey

HOOK_NAMES: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
#: The versions of the specification.
VERSIONS: Final = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
_NODE_TYPES: Final = frozenset(("", "b", "c", "u", "p"))
_PERMISSIONS: Final = frozenset("rwm")


class InvalidSpec(ValueError):
    """Raised for a CDI specification that runtimes would reject; the text has the field and its expected value."""


class _CdiObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Base of the parts of a file: camelCase names, no defaults in the output, no unknown fields."""


class DeviceNode(_CdiObject, frozen=True):
    """A device file. Without type or numbers the runtime reads them from the host when it creates the container."""

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
    """A bind mount of a file or folder of the host."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ()
    type: str = ""


class Hook(_CdiObject, frozen=True):
    """A program on the host that runs at a point of the container lifecycle. ``args`` starts with its name."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class NetDevice(_CdiObject, frozen=True):
    """A network interface of the host that is moved into the container with the name ``name``."""

    host_interface_name: str
    name: str


class IntelRdt(_CdiObject, frozen=True):
    """The class of the container in Intel Resource Director Technology, and limits of its cache and bandwidth."""

    clos_id: str = msgspec.field(default="", name="closID")
    l3_cache_schema: str = ""
    mem_bw_schema: str = ""
    schemata: tuple[str, ...] | None = None
    enable_monitoring: bool = False


class ContainerEdits(_CdiObject, frozen=True):
    """The changes to a container."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    net_devices: tuple[NetDevice, ...] = ()
    additional_gids: tuple[int, ...] = ()
    intel_rdt: IntelRdt | None = None

    def __bool__(self) -> bool:
        """Whether there are any edits."""
        return self != _NO_EDITS

    def merged(self, other: ContainerEdits) -> ContainerEdits:
        """Return these edits followed by ``other``."""
        return merge((self, other))


_NO_EDITS: Final = ContainerEdits()


class CdiDevice(_CdiObject, frozen=True):
    """A device of a CDI file, with the edits for containers that use it."""

    name: str
    container_edits: ContainerEdits
    annotations: Mapping[str, str] = {}


class Spec(_CdiObject, frozen=True):
    """A whole file. ``container_edits`` apply to containers with any of the devices.

    ``cdi_version``: the version in a file that was read; if empty, the minimum version is written.
    """

    kind: str
    devices: tuple[CdiDevice, ...]
    container_edits: ContainerEdits = ContainerEdits()
    cdi_version: str = ""
    annotations: Mapping[str, str] = {}


def merge(edits: Iterable[ContainerEdits]) -> ContainerEdits:
    """Return the combined edits, equivalent to applying them one after another.

    A variable keeps its position and gets its last value. A device node or mount replaces an earlier one of the same
    path. Mounts are sorted by depth, so that none is hidden by a later one.

    >>> merge((ContainerEdits(env=("A=1", "B=1")), ContainerEdits(env=("A=2",)))).env
    ('A=2', 'B=1')
    """
    all_edits = [edit for edit in edits if edit]
    if len(all_edits) <= 1:
        all_edits = [_NO_EDITS, *all_edits]
    env: dict[str, str] = {}
    nodes: dict[str, DeviceNode] = {}
    mounts: dict[str, Mount] = {}
    nets: dict[str, NetDevice] = {}
    for edit in all_edits:
        env.update((variable.partition("=")[0], variable) for variable in edit.env)
        for node in edit.device_nodes:
            nodes.pop(node.path, None)
            nodes[node.path] = node
        for mount in edit.mounts:
            mounts.pop(mount.container_path, None)
            mounts[mount.container_path] = mount
        nets.update((net.host_interface_name, net) for net in edit.net_devices)
    return ContainerEdits(
        env=tuple(env.values()),
        device_nodes=tuple(nodes.values()),
        mounts=tuple(sorted(mounts.values(), key=lambda mount: depth(mount.container_path))),
        hooks=tuple(hook for edit in all_edits for hook in edit.hooks),
        net_devices=tuple(nets.values()),
        additional_gids=tuple(dict.fromkeys(gid for edit in all_edits for gid in edit.additional_gids if gid)),
        intel_rdt=next((edit.intel_rdt for edit in reversed(all_edits) if edit.intel_rdt is not None), None),
    )


def depth(path: str) -> int:
    """Return the number of path components, at least 1.

    >>> depth("/dev/shm/"), depth("/")
    (2, 1)
    """
    return posixpath.normpath(path).count("/")


def minimum_version(spec: Spec) -> str:
    """Return the lowest version that has all features of the specification.

    >>> minimum_version(Spec("example.com/gpu", (CdiDevice("7f0c-gpu", ContainerEdits(env=("A=1",))),)))
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
    """Raise InvalidSpec, with all problems, if container runtimes would reject the specification."""
    if faults := list(_problems(spec)):
        raise InvalidSpec("; ".join(faults))


def encode(spec: Spec) -> bytes:
    """Return the file as JSON. Raises InvalidSpec."""
    validate(spec)
    tree = {"cdiVersion": spec.cdi_version or minimum_version(spec), **msgspec.to_builtins(spec)}
    return msgspec.json.format(msgspec.json.encode(tree), indent=2) + b"\n"


def decode(data: bytes, source: str = "") -> Spec:
    """Parse a file strictly, JSON or YAML. ``source``: its name for messages. Raises InvalidSpec."""
    try:
        spec = msgspec.convert(_without_nulls(_tree(data.decode("utf-8-sig"))), decodable(Spec))
        if not spec.cdi_version:
            raise InvalidSpec(f"cdiVersion: expected one of {', '.join(VERSIONS)}, found none")
        validate(spec)
    except UnicodeDecodeError as error:
        fault = f"not UTF-8: {error.reason} at byte {error.start}"
    except DocumentError as error:
        fault = f"line {error.line + 1}: {error.message}"
    except (InvalidSpec, msgspec.ValidationError) as error:
        fault = str(error)
    else:
        return spec
    raise InvalidSpec(f"{source}: {fault}" if source else fault)


def _tree(text: str) -> Any:
    read: list[tuple[Any, Sequence[DuplicateKey]]] = []
    start = json_parser.json_start(text)
    with suppress(DocumentError):  # YAML may start like JSON; if it is neither, the YAML error is reported
        read = (
            [(tree, duplicates) for tree, _, duplicates in json_parser.parse(text, start)] if start is not None else []
        )
    read = read or [(each.tree, each.duplicates) for each in yaml_parser.parse(text)]
    if len(read) != 1:
        raise InvalidSpec(f"expected one document, found {len(read)}")
    tree, duplicates = read[0]
    if duplicates:
        raise InvalidSpec(f"line {duplicates[0].line + 1}: {duplicates[0].path} is set twice")
    return tree


def _without_nulls(value: Any) -> Any:
    """Return a tree without null values, which Go treats as not set."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _problems(spec: Spec) -> Iterator[str]:
    minimum, version = minimum_version(spec), spec.cdi_version.removeprefix("v")
    if version and version not in VERSIONS:
        yield f"cdiVersion: expected one of {', '.join(VERSIONS)}, found {spec.cdi_version!r}"
    elif version and VERSIONS.index(version) < VERSIONS.index(minimum):
        yield f"cdiVersion: expected at least {minimum} for the fields in the file, found {spec.cdi_version}"
    if fault := kind_problem(spec.kind):
        yield f"kind: {fault}"
    if not spec.devices:
        yield "devices: expected at least one"
    yield from _edit_problems(spec.container_edits, "containerEdits")
    seen: set[str] = set()
    for number, device in enumerate(spec.devices):
        path = f"devices[{number}]"
        if fault := device_problem(device.name):
            yield f"{path}.name: {fault}"
        if device.name in seen:
            yield f"{path}.name: {device.name!r} is used twice"
        seen.add(device.name)
        if not device.container_edits:
            yield f"{path}.containerEdits: expected at least one edit"
        yield from _edit_problems(device.container_edits, f"{path}.containerEdits")


def _edit_problems(edits: ContainerEdits, path: str) -> Iterator[str]:
    yield from _env_problems(edits.env, f"{path}.env")
    for i, node in enumerate(edits.device_nodes):
        at = f"{path}.deviceNodes[{i}]"
        if not node.path:
            yield f"{at}.path: expected a path"
        if node.type not in _NODE_TYPES:
            yield f"{at}.type: expected b, c, u or p, found {node.type!r}"
        if node.permissions != "none" and not _PERMISSIONS.issuperset(node.permissions):
            yield f"{at}.permissions: expected a combination of r, w and m, found {node.permissions!r}"
    for i, mount in enumerate(edits.mounts):
        for field, value in (("hostPath", mount.host_path), ("containerPath", mount.container_path)):
            if not value:
                yield f"{path}.mounts[{i}].{field}: expected a path"
    for i, hook in enumerate(edits.hooks):
        at = f"{path}.hooks[{i}]"
        if hook.hook_name not in HOOK_NAMES:
            yield f"{at}.hookName: expected one of {', '.join(HOOK_NAMES)}, found {hook.hook_name!r}"
        if not hook.path.startswith("/"):
            yield f"{at}.path: expected an absolute path, found {hook.path!r}"
        if hook.timeout is not None and hook.timeout <= 0:
            yield f"{at}.timeout: expected seconds > 0, found {hook.timeout}"
        yield from _env_problems(hook.env, f"{at}.env")
    for field in ("host_interface_name", "name"):
        names = [getattr(net, field) for net in edits.net_devices]
        if "" in names or len(set(names)) < len(names):
            yield f"{path}.netDevices: expected unique, non-empty names, found {names}"
    if edits.intel_rdt is not None:
        clos = edits.intel_rdt.clos_id
        if clos != "/" and (clos in (".", "..") or len(clos) >= 4096 or "/" in clos or "\n" in clos):
            yield f"{path}.intelRdt.closID: expected a file name or '/', found {clos!r}"


def _env_problems(env: tuple[str, ...], path: str) -> Iterator[str]:
    for number, variable in enumerate(env):
        if variable.find("=") <= 0:
            yield f"{path}[{number}]: expected NAME=value, found {variable!r}"
