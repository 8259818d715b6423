"""The volumes of simulated containers, in memory.

Volumes that Kubernetes fills (ConfigMaps, Secrets, the downward API, tokens) are read when a command uses them, so that
a container that does not costs nothing, and later changes are visible as after the kubelet's next update. The
containers of a pod share all other volumes, which are empty at first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from allotment.cluster.client import Client
from allotment.model.trees import Tree
from allotment.node import volumes
from allotment.node.container_files import ContainerFiles, Directory, File, MountedVolume, ReadVolume
from allotment.node.runtimes.runtime import NotStarted

_FILLED: Final = ("configMap", "secret", "downwardAPI", "projected")
#: Real seconds for which the files that were read are used again: a command reads several in sequence.
_FRESH_SECONDS: Final = 0.5
#: A new token would be requested each time otherwise.
_TOKEN_SECONDS: Final = 600.0


async def simulated_volumes(
    pod: Callable[[], Tree], spec: Tree, shared: dict[str, Directory], host: Directory, *, client: Client,
    pod_ip: str, node: Callable[[], Tree],
) -> dict[str, MountedVolume]:  # fmt: skip
    """The volumes of a container by mount path. ``shared``: those of the pod by name, extended here. ``host``: the
    files of the node, which ``hostPath`` volumes share.

    Raises NotStarted for a ``subPath`` that cannot be mounted.
    """
    mounts = spec.get("volumeMounts") or ()
    if not mounts:
        return {}
    named = {volume["name"]: volume for volume in pod()["spec"].get("volumes") or ()}
    found: dict[str, MountedVolume] = {}
    for mount in mounts:
        volume = named.get(mount["name"])
        if volume is None:
            continue
        if mount["name"] not in shared:
            filled = any(kind in volume for kind in _FILLED)
            if filled:
                read = _reader(volume, pod, client, pod_ip, node)
                shared[mount["name"]] = Directory(read_only=True, read=read)
            elif "hostPath" in volume:
                shared[mount["name"]] = _host_directory(host, volume["hostPath"]["path"])
            else:
                shared[mount["name"]] = Directory()
        directory = shared[mount["name"]]
        if path := mount.get("subPath"):
            found[mount["mountPath"]] = await _inside(directory, path, mount["name"])
        elif mount.get("readOnly") and directory.read is None:
            view = found[mount["mountPath"]] = Directory(read_only=True)
            view.children = directory.children
        else:
            found[mount["mountPath"]] = directory
    return found


def _host_directory(host: Directory, path: str) -> Directory:
    """The directory at a path of the node, which is created if it is missing."""
    place = host
    for part in path.split("/"):
        if part in ("", ".", ".."):
            continue
        inner = place.children.get(part)
        if not isinstance(inner, Directory):
            inner = place.children[part] = Directory()
        place = inner
    return place


async def _inside(directory: Directory, path: str, name: str) -> MountedVolume:
    """The content of a volume at a ``subPath``; a missing directory is created, as the kubelet does."""
    files = ContainerFiles({"/volume": directory})
    where = f"/volume/{path}"
    entry = await files.find(where)
    if entry is None and not directory.read_only:
        await files.make_directory(where, parents=True)
        entry = await files.find(where)
    if not isinstance(entry, File | Directory):
        raise NotStarted("CreateContainerConfigError", f"failed to prepare subPath for volumeMount {name!r}")
    return entry


def _reader(volume: Tree, pod: Callable[[], Tree], client: Client, pod_ip: str, node: Callable[[], Tree]) -> ReadVolume:
    last: Mapping[str, bytes] = {}
    valid = 0.0
    tokens = any("serviceAccountToken" in source for source in (volume.get("projected") or {}).get("sources") or ())

    async def read() -> Mapping[str, bytes]:
        nonlocal last, valid
        if time.monotonic() < valid:
            return last
        try:
            files = await volumes.files_of(volume, pod(), client, pod_ip, node())
        except NotStarted:
            # What was mounted stays when its source is deleted.
            return last
        last = {path: text.encode(errors="replace") for path, text in files.items()}
        valid = time.monotonic() + (_TOKEN_SECONDS if tokens else _FRESH_SECONDS)
        return last

    return read
