"""Volumes, their classes and drivers, as an administrator declares them. Nothing in a lab provisions or binds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, Rules, Write
from allotment.apiserver.kinds.volume_claims import access_modes
from allotment.model.node_selectors import NodeSelector
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import (
    duplicate,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
    too_long,
)
from allotment.model.validation.gotext import GoNamedString
from allotment.model.validation.node_selectors import node_selector

_SOURCES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
    "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_PARAMETERS: Final = 512
_PARAMETERS_SIZE: Final = 256 * 1024
_MOST_NODE_ID: Final = 256
_DRIVER_MAX: Final = 63


# --- volumes ---------------------------------------------------------------------------------------------------------


def _available(tree: Tree, write: Write) -> Tree:
    # Upstream starts as Pending, and its controller makes this of it a moment later.
    return {**tree, "status": {"phase": "Available", "lastPhaseTransitionTime": write.now}}


def _volume(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    yield from access_modes(spec.get("accessModes") or (), "spec")
    yield from _capacity(spec.get("capacity") or {})
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM:
        yield not_supported("spec.persistentVolumeReclaimPolicy", GoNamedString(policy), _RECLAIM)
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if affinity.get("required") is None:
            yield required("spec.nodeAffinity.required", "must specify required node constraints")
        else:
            terms = affinity["required"].get("nodeSelectorTerms") or ()
            selector = msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector)
            yield from node_selector(selector, "spec.nodeAffinity.required")
    yield from _source(spec)
    if spec.get("storageClassName"):
        yield from names.subdomain(spec["storageClassName"], "spec.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        yield not_supported("spec.volumeMode", GoNamedString(mode), _VOLUME_MODES)


def _capacity(capacity: Mapping[str, Any]) -> Errors:
    if not capacity:
        yield required("spec.capacity")
    if set(capacity) != {"storage"}:
        yield not_supported("spec.capacity", capacity or None, ("storage",))
    for name in sorted(capacity):
        amount = Quantity.parse(str(capacity[name]))
        if amount.nano < 0:
            yield invalid(f"spec.capacity[{name}]", str(amount), "must be a valid resource quantity")
        if amount.nano <= 0:
            yield invalid(f"spec.capacity[{name}]", str(amount), "must be greater than zero")


def _source(spec: Tree) -> Errors:
    given = [source for source in _SOURCES if spec.get(source) is not None]
    if not given:
        yield required("spec", "must specify a volume type")
        return
    source, at = spec[given[0]], f"spec.{given[0]}"
    if given[0] in ("hostPath", "local"):
        where = source.get("path") or ""
        if not where:
            yield required(f"{at}.path")
        elif ".." in where.split("/"):
            yield invalid(f"{at}.path", where, "must not contain '..'")
    elif given[0] == "csi":
        yield from _driver_name(source.get("driver") or "", f"{at}.driver")
        if not source.get("volumeHandle"):
            yield required(f"{at}.volumeHandle")
    elif given[0] == "nfs":
        if not source.get("server"):
            yield required(f"{at}.server")
        if not source.get("path"):
            yield required(f"{at}.path")
        elif not source["path"].startswith("/"):
            yield invalid(f"{at}.path", source["path"], "must be an absolute path")
    for other in given[1:]:
        yield forbidden(f"spec.{other}", "may not specify more than 1 volume type")


def _volume_updated(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource:
        return
    yield from _volume(new, write)
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if any(after.get(source) != before.get(source) for source in _SOURCES):
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    if after.get("volumeMode") != before.get("volumeMode"):
        yield immutable("volumeMode", GoNamedString(after.get("volumeMode") or ""))


# --- classes ---------------------------------------------------------------------------------------------------------


def _class(tree: Tree, write: Write) -> Errors:
    provisioner = tree.get("provisioner") or ""
    yield from names.label_key(provisioner.lower(), "provisioner") if provisioner else (required("provisioner"),)
    parameters: Mapping[str, str] = tree.get("parameters") or {}
    if len(parameters) > _PARAMETERS:
        yield too_long("parameters", _PARAMETERS)
    elif sum(len(key) + len(value) for key, value in parameters.items()) > _PARAMETERS_SIZE:
        yield too_long("parameters", _PARAMETERS_SIZE)
    policy, mode = tree.get("reclaimPolicy"), tree.get("volumeBindingMode")
    if policy and policy not in ("Delete", "Retain"):
        yield not_supported("reclaimPolicy", GoNamedString(policy), ("Delete", "Retain"))
    if mode is None:
        yield required("volumeBindingMode")
    elif mode not in _BINDING:
        yield not_supported("volumeBindingMode", GoNamedString(mode), _BINDING)
    terms = tree.get("allowedTopologies") or ()
    # Upstream's list of those seen starts with as many empty ones as there are terms.
    seen: list[dict[str, set[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        at, wanted = f"allowedTopologies[{index}].matchLabelExpressions", term.get("matchLabelExpressions") or ()
        yield from _topology(wanted, at)
        values = {one.get("key") or "": set(one.get("values") or ()) for one in wanted}
        yield from (duplicate(at, "") for other in seen if other == values)
        seen.append(values)


def _topology(wanted: Sequence[Tree], path: str) -> Errors:
    keys: set[str] = set()
    for index, one in enumerate(wanted):
        at, key, values = f"{path}[{index}]", one.get("key") or "", one.get("values") or ()
        if not values:
            yield required(f"{at}.values")
        for position, value in enumerate(values):
            if value in values[:position]:
                yield duplicate(f"{at}.values[{position}]", value)
        yield from names.label_key(key, f"{at}.key")
        if key in keys:
            yield duplicate(f"{at}.key", key)
        keys.add(key)


def _class_updated(new: Tree, old: Tree, write: Write) -> Errors:
    yield from _class(new, write)
    for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if new.get(field) != old.get(field):
            yield immutable(field, new.get(field))


# --- drivers ---------------------------------------------------------------------------------------------------------


def _driver_name(name: str, path: str) -> Errors:
    if not name:
        yield required(path)
        return
    if len(name) > _DRIVER_MAX:
        yield too_long(path, _DRIVER_MAX)
    for problem in names.subdomain_problems(name.lower()):
        yield invalid(path, name, problem)


def _node(tree: Tree, write: Write) -> Errors:
    seen: set[str] = set()
    for index, driver in enumerate((tree.get("spec") or {}).get("drivers") or ()):
        at, name, node = f"spec.drivers[{index}]", driver.get("name") or "", driver.get("nodeID") or ""
        yield from _driver_name(name, f"{at}.name")
        if not node:
            yield required(f"{at}.nodeID")
        if len(node) > _MOST_NODE_ID:
            yield invalid(f"{at}.nodeID", node, f"must be {_MOST_NODE_ID} characters or less")
        yield from field_validation.non_negative(
            (driver.get("allocatable") or {}).get("count"), f"{at}.allocatable.count"
        )
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        keys = driver.get("topologyKeys") or ()
        for position, key in enumerate(keys):
            if not key:
                yield required(at)
            if key in keys[:position]:
                yield duplicate(at, key)
            yield from names.label_key(key or "", at)


def _node_updated(new: Tree, old: Tree, write: Write) -> Errors:
    return _node(new, write)


RULES: Final[Mapping[str, Rules]] = {
    "persistentvolumes": Rules(prepare_create=_available, validate_create=_volume, validate_update=_volume_updated),
    "storageclasses.storage.k8s.io": Rules(validate_create=_class, validate_update=_class_updated),
    "csinodes.storage.k8s.io": Rules(validate_create=_node, validate_update=_node_updated),
}
