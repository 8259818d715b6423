"""Validation of pod volumes: names, exactly one source each, and the common sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.containers import descending_path
from allotment.apiserver.kinds.projected_volumes import projected_volume
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, FieldError, duplicate, forbidden, invalid, required

#: In upstream's order: of several sources the first is validated and the others are forbidden.
_SOURCES: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_HOST_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_INVALID_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"


def volumes(items: Sequence[Tree], path: str, valid: set[str]) -> Errors:
    """Validate volumes; the names of valid ones are added to ``valid``, for mounts to refer to."""
    for index, volume in enumerate(items):
        item_path, name = f"{path}[{index}]", volume.get("name") or ""
        errors: list[FieldError] = list(_source(volume, name, item_path))
        if not name:
            errors.append(required(f"{item_path}.name"))
        else:
            errors.extend(names.label(name, f"{item_path}.name"))
        if name in valid:
            errors.append(duplicate(f"{item_path}.name", name))
        if errors:
            yield from errors
        else:
            valid.add(name)


def _source(volume: Tree, name: str, path: str) -> Errors:
    present = [source for source in _SOURCES if volume.get(source) is not None]
    if not present:
        yield required(path, "must specify a volume type")
        return
    check = _CHECKS.get(present[0])
    if check is not None:
        yield from check(volume[present[0]], f"{path}.{present[0]}")
    for source in present[1:]:
        yield forbidden(f"{path}.{source}", "may not specify more than 1 volume type")


def _empty_dir(source: Tree, path: str) -> Errors:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.parse(str(limit)).nano < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Tree, path: str) -> Errors:
    host_path = source.get("path") or ""
    if not host_path:
        yield required(f"{path}.path")
    elif ".." in host_path.split("/"):
        yield invalid(f"{path}.path", host_path, "must not contain '..'")
    if source.get("type"):
        yield from field_validation.choice(source["type"], f"{path}.type", _HOST_TYPES)


def _secret(source: Tree, path: str) -> Errors:
    if not source.get("secretName"):
        yield required(f"{path}.secretName")
    yield from _files(source, path)


def _config_map(source: Tree, path: str) -> Errors:
    if not source.get("name"):
        yield required(f"{path}.name")
    yield from _files(source, path)


def _files(source: Tree, path: str) -> Errors:
    mode = source.get("defaultMode")
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(f"{path}.defaultMode", mode, _INVALID_MODE)
    for index, item in enumerate(source.get("items") or ()):
        item_path = f"{path}.items[{index}]"
        if not item.get("key"):
            yield required(f"{item_path}.key")
        if not item.get("path"):
            yield required(f"{item_path}.path")
        else:
            yield from descending_path(item["path"], f"{item_path}.path")
        if item.get("mode") is not None and not 0 <= item["mode"] <= 0o777:
            yield invalid(f"{item_path}.mode", item["mode"], _INVALID_MODE)


def _claim(source: Tree, path: str) -> Errors:
    if not source.get("claimName"):
        yield required(f"{path}.claimName")


def _nfs(source: Tree, path: str) -> Errors:
    if not source.get("server"):
        yield required(f"{path}.server")
    if not source.get("path"):
        yield required(f"{path}.path")
    elif not source["path"].startswith("/"):
        yield invalid(f"{path}.path", source["path"], "must be an absolute path")


def _csi(source: Tree, path: str) -> Errors:
    if not source.get("driver"):
        yield required(f"{path}.driver")


def _ephemeral(source: Tree, path: str) -> Errors:
    if source.get("volumeClaimTemplate") is None:
        yield required(f"{path}.volumeClaimTemplate")


def _projected(source: Tree, path: str) -> Errors:
    yield from projected_volume(source, path, _files)


_CHECKS: Final = {
    "emptyDir": _empty_dir, "hostPath": _host_path, "secret": _secret, "configMap": _config_map,
    "persistentVolumeClaim": _claim, "nfs": _nfs, "csi": _csi, "ephemeral": _ephemeral, "projected": _projected,
}  # fmt: skip
