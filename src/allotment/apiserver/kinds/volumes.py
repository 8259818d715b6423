"""Validation of a pod's volumes: named, each with exactly one source, and the sources that people write by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.containers import descending
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, FieldError, duplicate, forbidden, invalid, required

#: In upstream's order: of several sources the first counts and the others are forbidden.
_SOURCES: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_HOST_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_MODE: Final = "must be a number between 0 and 0777 (octal), both inclusive"


def volumes(items: Sequence[Tree], path: str, valid: set[str]) -> Errors:
    """The volumes; names of those without a fault are added to ``valid``, for mounts to refer to."""
    for index, volume in enumerate(items):
        at, name = f"{path}[{index}]", volume.get("name") or ""
        faults: list[FieldError] = list(_source(volume, name, at))
        if not name:
            faults.append(required(f"{at}.name"))
        else:
            faults.extend(names.label(name, f"{at}.name"))
        if name in valid:
            faults.append(duplicate(f"{at}.name", name))
        if faults:
            yield from faults
        else:
            valid.add(name)


def _source(volume: Tree, name: str, path: str) -> Errors:
    given = [source for source in _SOURCES if volume.get(source) is not None]
    if not given:
        yield required(path, "must specify a volume type")
        return
    check = _CHECKS.get(given[0])
    if check is not None:
        yield from check(volume[given[0]], f"{path}.{given[0]}")
    for source in given[1:]:
        yield forbidden(f"{path}.{source}", "may not specify more than 1 volume type")


def _empty_dir(source: Tree, path: str) -> Errors:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity.parse(str(limit)).nano < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Tree, path: str) -> Errors:
    where = source.get("path") or ""
    if not where:
        yield required(f"{path}.path")
    elif ".." in where.split("/"):
        yield invalid(f"{path}.path", where, "must not contain '..'")
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
        yield invalid(f"{path}.defaultMode", mode, _MODE)
    for index, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{index}]"
        if not item.get("key"):
            yield required(f"{at}.key")
        if not item.get("path"):
            yield required(f"{at}.path")
        else:
            yield from descending(item["path"], f"{at}.path")
        if item.get("mode") is not None and not 0 <= item["mode"] <= 0o777:
            yield invalid(f"{at}.mode", item["mode"], _MODE)


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
    for index, part in enumerate(source.get("sources") or ()):
        at = f"{path}.sources[{index}]"
        for sort in ("secret", "configMap"):
            if (named := part.get(sort)) is not None:
                if not named.get("name"):
                    yield required(f"{at}.{sort}.name")
                yield from _files(named, f"{at}.{sort}")
        token = part.get("serviceAccountToken")
        if token is not None:
            if (token.get("expirationSeconds") or 0) < 600:
                seconds = token.get("expirationSeconds") or 0
                yield invalid(
                    f"{at}.serviceAccountToken.expirationSeconds",
                    seconds,
                    "may not specify a duration less than 10 minutes",
                )
            if not token.get("path"):
                yield required(f"{at}.serviceAccountToken.path")


_CHECKS: Final = {
    "emptyDir": _empty_dir, "hostPath": _host_path, "secret": _secret, "configMap": _config_map,
    "persistentVolumeClaim": _claim, "nfs": _nfs, "csi": _csi, "ephemeral": _ephemeral, "projected": _projected,
}  # fmt: skip
