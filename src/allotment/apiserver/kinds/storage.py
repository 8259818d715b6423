"""Admission and validation of PersistentVolumes, StorageClasses and CSINodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.volume_claims import access_modes, protected
from allotment.decoding import decodable
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
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_MAX_PARAMETERS: Final = 512
_MAX_PARAMETERS_SIZE: Final = 256 * 1024
_MAX_NODE_ID_LENGTH: Final = 256
_MAX_DRIVER_NAME_LENGTH: Final = 63


# --- volumes ---------------------------------------------------------------------------------------------------------


def _prepare_volume(tree: Tree, write: Write) -> Tree:
    return {**tree, "status": {"phase": "Pending", "lastPhaseTransitionTime": write.now}}


def _prepare_volume_update(new: Tree, old: Tree, write: Write) -> Tree:
    if write.subresource != "status":
        return new
    before: Tree = old.get("status") or {}
    status: Tree = new.get("status") or {}
    unchanged = status.get("lastPhaseTransitionTime") in (None, before.get("lastPhaseTransitionTime"))
    if status.get("phase") != before.get("phase") and unchanged:
        new = {**new, "status": {**status, "lastPhaseTransitionTime": write.now}}
    return new


def _admit_volume(tree: Tree, write: Write) -> Tree:
    return protected(tree, "kubernetes.io/pv-protection", write)


def _volume(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    yield from access_modes(spec.get("accessModes") or (), "spec")
    yield from _capacity(spec.get("capacity") or {})
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM_POLICIES:
        yield not_supported("spec.persistentVolumeReclaimPolicy", GoNamedString(policy), _RECLAIM_POLICIES)
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if affinity.get("required") is None:
            yield required("spec.nodeAffinity.required", "must specify required node constraints")
        else:
            terms = affinity["required"].get("nodeSelectorTerms") or ()
            selector = msgspec.convert({"nodeSelectorTerms": terms}, decodable(NodeSelector))
            yield from node_selector(selector, "spec.nodeAffinity.required")
    yield from _source(spec)
    if spec.get("local") is not None and affinity is None:
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
    if policy == "Recycle" and (spec.get("hostPath") or {}).get("path") == "/":
        yield forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
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
    present = [source for source in _SOURCES if spec.get(source) is not None]
    if not present:
        yield required("spec", "must specify a volume type")
        return
    source, path = spec[present[0]], f"spec.{present[0]}"
    if present[0] in ("hostPath", "local"):
        host_path = source.get("path") or ""
        if not host_path:
            yield required(f"{path}.path")
        elif ".." in host_path.split("/"):
            yield invalid(f"{path}.path", host_path, "must not contain '..'")
    elif present[0] == "csi":
        yield from _driver_name(source.get("driver") or "", f"{path}.driver")
        if not source.get("volumeHandle"):
            yield required(f"{path}.volumeHandle")
    elif present[0] == "nfs":
        if not source.get("server"):
            yield required(f"{path}.server")
        if not source.get("path"):
            yield required(f"{path}.path")
        elif not source["path"].startswith("/"):
            yield invalid(f"{path}.path", source["path"], "must be an absolute path")
    for extra in present[1:]:
        yield forbidden(f"spec.{extra}", "may not specify more than 1 volume type")


def _volume_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource:
        return
    yield from _volume(new, write)
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if any(after.get(source) != before.get(source) for source in _SOURCES):
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    if after.get("volumeMode") != before.get("volumeMode"):
        yield immutable("volumeMode", GoNamedString(after.get("volumeMode") or ""))
    affinity = before.get("nodeAffinity")
    if affinity is not None and after.get("nodeAffinity") != affinity:
        text = "field is immutable, except for updating from beta label to GA"
        yield invalid("nodeAffinity", _as_go_value(after.get("nodeAffinity")), text)


def _as_go_value(affinity: Tree | None) -> Tree | None:
    """A node affinity as Kubernetes prints it: with the names of Go's fields, and unset lists."""
    if affinity is None:
        return None
    terms = [
        {
            name: [
                {"Key": each.get("key", ""), "Operator": each.get("operator", ""), "Values": each.get("values")}
                for each in term[field]
            ]
            if term.get(field)
            else None
            for name, field in (("MatchExpressions", "matchExpressions"), ("MatchFields", "matchFields"))
        }
        for term in (affinity.get("required") or {}).get("nodeSelectorTerms") or ()
    ]
    return {"Required": {"NodeSelectorTerms": terms}}


# --- classes ---------------------------------------------------------------------------------------------------------


def _storage_class(tree: Tree, write: Write) -> Errors:
    provisioner = tree.get("provisioner") or ""
    yield from names.label_key(provisioner.lower(), "provisioner") if provisioner else (required("provisioner"),)
    parameters: Mapping[str, str] = tree.get("parameters") or {}
    if len(parameters) > _MAX_PARAMETERS:
        yield too_long("parameters", _MAX_PARAMETERS)
    elif sum(len(key) + len(value) for key, value in parameters.items()) > _MAX_PARAMETERS_SIZE:
        yield too_long("parameters", _MAX_PARAMETERS_SIZE)
    policy, mode = tree.get("reclaimPolicy"), tree.get("volumeBindingMode")
    if policy and policy not in ("Delete", "Retain"):
        yield not_supported("reclaimPolicy", GoNamedString(policy), ("Delete", "Retain"))
    if mode is None:
        yield required("volumeBindingMode")
    elif mode not in _BINDING_MODES:
        yield not_supported("volumeBindingMode", GoNamedString(mode), _BINDING_MODES)
    terms = tree.get("allowedTopologies") or ()
    # As upstream, the list of seen terms starts with one empty entry per term.
    seen: list[dict[str, set[str]]] = [{} for _ in terms]
    for index, term in enumerate(terms):
        path, expressions = f"allowedTopologies[{index}].matchLabelExpressions", term.get("matchLabelExpressions") or ()
        yield from _topology(expressions, path)
        values = {expression.get("key") or "": set(expression.get("values") or ()) for expression in expressions}
        yield from (duplicate(path, "") for earlier in seen if earlier == values)
        seen.append(values)


def _topology(expressions: Sequence[Tree], path: str) -> Errors:
    keys: set[str] = set()
    for index, expression in enumerate(expressions):
        item_path, key, values = f"{path}[{index}]", expression.get("key") or "", expression.get("values") or ()
        if not values:
            yield required(f"{item_path}.values")
        for position, value in enumerate(values):
            if value in values[:position]:
                yield duplicate(f"{item_path}.values[{position}]", value)
        yield from names.label_key(key, f"{item_path}.key")
        if key in keys:
            yield duplicate(f"{item_path}.key", key)
        keys.add(key)


def _storage_class_update(new: Tree, old: Tree, write: Write) -> Errors:
    yield from _storage_class(new, write)
    for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if new.get(field) != old.get(field):
            yield immutable(field, new.get(field))


# --- drivers ---------------------------------------------------------------------------------------------------------


def _driver_name(name: str, path: str) -> Errors:
    if not name:
        yield required(path)
        return
    if len(name) > _MAX_DRIVER_NAME_LENGTH:
        yield too_long(path, _MAX_DRIVER_NAME_LENGTH)
    for problem in names.subdomain_problems(name.lower()):
        yield invalid(path, name, problem)


def _csi_node(tree: Tree, write: Write) -> Errors:
    seen: set[str] = set()
    for index, driver in enumerate((tree.get("spec") or {}).get("drivers") or ()):
        path, name, node = f"spec.drivers[{index}]", driver.get("name") or "", driver.get("nodeID") or ""
        yield from _driver_name(name, f"{path}.name")
        if not node:
            yield required(f"{path}.nodeID")
        if len(node) > _MAX_NODE_ID_LENGTH:
            yield invalid(f"{path}.nodeID", node, f"must be {_MAX_NODE_ID_LENGTH} characters or less")
        yield from field_validation.non_negative(
            (driver.get("allocatable") or {}).get("count"), f"{path}.allocatable.count"
        )
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
        keys = driver.get("topologyKeys") or ()
        for position, key in enumerate(keys):
            if not key:
                yield required(path)
            if key in keys[:position]:
                yield duplicate(path, key)
            yield from names.label_key(key or "", path)


def _csi_node_update(new: Tree, old: Tree, write: Write) -> Errors:
    return _csi_node(new, write)


RULES: Final[Mapping[str, KindRules]] = {
    "persistentvolumes": KindRules(
        prepare_create=_prepare_volume,
        admit=_admit_volume,
        validate_create=_volume,
        prepare_update=_prepare_volume_update,
        validate_update=_volume_update,
    ),
    "storageclasses.storage.k8s.io": KindRules(validate_create=_storage_class, validate_update=_storage_class_update),
    "csinodes.storage.k8s.io": KindRules(validate_create=_csi_node, validate_update=_csi_node_update),
}
