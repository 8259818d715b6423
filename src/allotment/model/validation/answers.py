"""One write request to the API, answered in memory: status code and body, as the real server would answer.

From the path and the decoded JSON to a ``Status`` or the stored object: served versions, strict decoding, names and
namespaces, defaults, validation, conflicts. Nothing is stored; the caller keeps the objects. Objects of other groups
are decoded, and of pods the parts that name claims are validated; their answers are not whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from msgspec.structs import replace

from allotment.model.core import Pod
from allotment.model.fields import GROUP, shape_of
from allotment.model.meta import Object, ObjectMeta
from allotment.model.quoting import quote
from allotment.model.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from allotment.model.strict import check, server_text
from allotment.model.trees import to_value
from allotment.model.validation import admission
from allotment.model.validation.context import Context
from allotment.model.validation.errors import FieldError, failure, invalid, invalid_status
from allotment.model.validation.metadata import object_meta
from allotment.model.validation.pods import pod_claims
from allotment.model.versions import to_v1
from allotment.model.wire import wire_tree

Tree = dict[str, Any]


class Resource(NamedTuple):
    """A resource of the group: its type, scope and the versions that serve it."""

    type: type[Object]
    namespaced: bool
    versions: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The kind of its objects."""
        return self.type.__name__


RESOURCES: Mapping[str, Resource] = {
    "deviceclasses": Resource(DeviceClass, False, ("v1", "v1beta2", "v1beta1")),
    "resourceclaims": Resource(ResourceClaim, True, ("v1", "v1beta2", "v1beta1")),
    "resourceclaimtemplates": Resource(ResourceClaimTemplate, True, ("v1", "v1beta2", "v1beta1")),
    "resourceslices": Resource(ResourceSlice, False, ("v1", "v1beta2", "v1beta1")),
    "devicetaintrules": Resource(DeviceTaintRule, False, ("v1beta2", "v1alpha3")),
    "resourcepoolstatusrequests": Resource(ResourcePoolStatusRequest, False, ("v1alpha3",)),
}
#: Kinds of other groups that can hold claims, by API version and resource.
FOREIGN: Mapping[tuple[str, str], str] = {
    ("v1", "pods"): "Pod", ("batch/v1", "jobs"): "Job", ("batch/v1", "cronjobs"): "CronJob",
    ("apps/v1", "deployments"): "Deployment", ("apps/v1", "replicasets"): "ReplicaSet",
    ("apps/v1", "statefulsets"): "StatefulSet", ("apps/v1", "daemonsets"): "DaemonSet",
}  # fmt: skip


class Request(NamedTuple):
    """A write: ``path`` with its query; ``body`` as decoded JSON."""

    method: str
    path: str
    body: Any
    content_type: str = "application/json"


class World(NamedTuple):
    """What the answer depends on beside the request.

    ``objects``: stored objects by resource, namespace and name. ``namespaces``: their labels by name; ``None`` takes
    every namespace to exist without labels. ``now``: RFC 3339, whole seconds. ``uid`` and ``suffix`` are what a created
    object gets as uid and, if it asks for a generated name, as the end of its name. ``versions``: versions of the group
    that are served; ``None`` for all that 1.36 has.
    """

    context: Context
    now: str
    objects: Mapping[tuple[str, str, str], Object] = {}
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    uid: str = "00000000-0000-4000-8000-000000000000"
    suffix: str = "xxxxx"
    versions: frozenset[str] | None = None


class Answer(NamedTuple):
    """Status code and body; ``value`` is what is to be stored, in its v1 shape; ``warnings`` go into headers."""

    code: int
    body: Tree
    value: Object | None = None
    warnings: tuple[str, ...] = ()


class _Refused(Exception):
    """Raised to answer with a ``Status`` at once."""

    def __init__(self, status: Tree) -> None:
        super().__init__(status["message"])
        self.status = status


class _Target(NamedTuple):
    """What a path names."""

    version: str
    plural: str
    resource: Resource
    namespace: str
    name: str
    subresource: str
    strict: bool

    @property
    def api_version(self) -> str:
        return f"{GROUP}/{self.version}"

    @property
    def labels_of(self) -> str:
        return f"{self.plural}.{GROUP}"


def answer(request: Request, world: World) -> Answer:
    """Answer a POST, PUT or PATCH (merge patches only)."""
    try:
        return _foreign(request) or _answer(request, _target(request, world), world)
    except _Refused as refusal:
        return Answer(refusal.status["code"], refusal.status)


def _answer(request: Request, target: _Target, world: World) -> Answer:
    key = (target.plural, target.namespace, target.name)
    if request.method == "POST" and not target.name:
        return _create(request, target, world)
    if request.method not in ("PUT", "PATCH") or not target.name:
        message = "the server does not allow this method on the requested resource"
        raise _Refused(failure(405, "MethodNotAllowed", message, {}))
    old = world.objects.get(key)
    if old is None:
        raise _Refused(_about(404, "NotFound", f"{target.labels_of} {quote(target.name)} not found", target))
    return _update(request, target, old, world)


# --- reading the request ---------------------------------------------------------------------------------------------


def _target(request: Request, world: World) -> _Target:
    url = urlsplit(request.path)
    strict = parse_qs(url.query).get("fieldValidation", ["Warn"])[-1] == "Strict"
    steps = url.path.strip("/").split("/")
    if len(steps) > 3 and steps[:2] == ["apis", GROUP]:
        version, rest = steps[2], steps[3:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "")[:3] if len(rest) < 4 else ("", "", "")
        found = RESOURCES.get(plural)
        if (
            found is not None
            and version in found.versions
            and (world.versions is None or version in world.versions)
            and found.namespaced == bool(namespace)
            and (not subresource or (subresource == "status" and admission.RULES[found.type].status_update))
        ):
            return _Target(version, plural, found, namespace, name, subresource, strict)
    raise _Refused(failure(404, "NotFound", "the server could not find the requested resource", {}))


def _foreign(request: Request) -> Answer | None:
    """The answer for a new object of another group; ``None`` for a path of ours."""
    url = urlsplit(request.path)
    steps = url.path.strip("/").split("/")
    version = "/".join(steps[1:2] if steps[0] == "api" else steps[1:3])
    kind = FOREIGN.get((version, steps[-1]))
    if kind is None or request.method != "POST":
        return None
    strict = parse_qs(url.query).get("fieldValidation", ["Warn"])[-1] == "Strict"
    tree, warnings = _decoded(request.body, version, kind, strict=strict)
    if kind == "Pod":
        pod = to_value(tree, Pod)
        errors = list(
            object_meta(replace(pod.metadata, namespace=steps[-2] if len(steps) > 3 else ""), namespaced=True)
        )
        errors.extend(pod_claims(pod))
        if errors:
            raise _Refused(invalid_status("", kind, pod.metadata.name, errors))
    return Answer(201, tree, None, warnings)


def _decoded(body: Any, api_version: str, kind: str, *, strict: bool) -> tuple[Tree, tuple[str, ...]]:
    """The cleaned tree of a body, and what would be warned about. Kind and version may be missing."""
    if not isinstance(body, dict):
        text = f"the object provided is unrecognized (must be of type {kind})"
        raise _Refused(failure(400, "BadRequest", text))
    found, written = body.get("kind") or kind, body.get("apiVersion") or api_version
    short = str(written).rpartition("/")[2]
    if (found, written) != (kind, api_version):
        # Another kind or version: known to the server or not, it is not what the path is for.
        known = shape_of(str(written), str(found)) is not None
        if known and found == kind:
            reason = f"the API version in the data ({written}) does not match the expected API version ({api_version})"
            raise _Refused(failure(400, "BadRequest", reason))
        text = "unknown conversion" if known else f'no kind "{found}" is registered for version "{written}"'
        message = f'{found} in version "{short}" cannot be handled as a {kind}: {text}'
        raise _Refused(failure(400, "BadRequest", message))
    shape = shape_of(api_version, kind)
    assert shape is not None, "every served kind has a shape"
    checked = check(body, api_version, kind, shape)
    unknown = tuple(misfit.message for misfit in checked.misfits if misfit.sort == "unknown")
    if len(unknown) < len(checked.misfits) or (strict and unknown):
        message = f'{kind} in version "{short}" cannot be handled as a {kind}: {server_text(checked.misfits)}'
        raise _Refused(failure(400, "BadRequest", message))
    return {**checked.tree, "apiVersion": api_version, "kind": kind}, unknown


def _value(body: Any, target: _Target) -> tuple[Any, tuple[str, ...]]:
    """The object of a body in its v1 shape, in the namespace of the path."""
    tree, warnings = _decoded(body, target.api_version, target.resource.kind, strict=target.strict)
    value: Any = to_value(to_v1(tree), target.resource.type)
    meta: ObjectMeta = value.metadata
    if target.namespace and meta.namespace not in ("", target.namespace):
        message = "the namespace of the provided object does not match the namespace sent on the request"
        raise _Refused(failure(400, "BadRequest", message))
    return replace(value, metadata=replace(meta, namespace=target.namespace)), warnings


# --- writing ---------------------------------------------------------------------------------------------------------


def _create(request: Request, target: _Target, world: World) -> Answer:
    value, unknown = _value(request.body, target)
    labels = _namespace_labels(target, world)
    meta: ObjectMeta = value.metadata
    name = meta.name or (f"{meta.generate_name[: 63 - len(world.suffix)]}{world.suffix}" if meta.generate_name else "")
    meta = replace(meta, name=name, uid=world.uid, creation_timestamp=world.now, deletion_timestamp=None)
    admitted = admission.create(
        replace(value, metadata=meta), world.context, version=target.version, now=world.now, namespace_labels=labels
    )
    _refuse(admitted.errors, target, name)
    if meta.resource_version:
        raise _Refused(failure(500, "", "resourceVersion should not be set on objects to be created"))
    if (target.plural, target.namespace, name) in world.objects:
        raise _Refused(_about(409, "AlreadyExists", f"{target.labels_of} {quote(name)} already exists", target, name))
    return _stored(201, admitted, target, unknown)


def _update(request: Request, target: _Target, old: Any, world: World) -> Answer:
    body = request.body
    if request.method == "PATCH":
        if request.content_type != "application/merge-patch+json":
            raise _Refused(failure(415, "UnsupportedMediaType", "only merge patches are answered here"))
        body = merged(wire_tree(old, target.api_version), body)
    new, unknown = _value(body, target)
    if not new.metadata.name:
        new = replace(new, metadata=replace(new.metadata, name=target.name))
    if new.metadata.name != target.name:
        message = f"the name of the object ({new.metadata.name}) does not match the name on the URL ({target.name})"
        raise _Refused(failure(400, "BadRequest", message))
    new = _with_resource_version(new, old, target)
    if target.subresource:
        labels = _namespace_labels(target, world)
        admitted = admission.update_status(
            new, old, world.context, version=target.version, now=world.now, namespace_labels=labels
        )
    else:
        admitted = admission.update(new, old, world.context, version=target.version, now=world.now)
    _refuse(admitted.errors, target, target.name)
    return _stored(200, admitted, target, unknown)


def _with_resource_version(new: Any, old: Any, target: _Target) -> Any:
    given, stored = new.metadata.resource_version, old.metadata.resource_version
    if given in ("", "0"):
        if target.resource.type is ResourcePoolStatusRequest:
            _refuse([invalid("metadata.resourceVersion", 0, "must be specified for an update")], target, target.name)
        return replace(new, metadata=replace(new.metadata, resource_version=stored))
    if given != stored:
        message = (
            f"Operation cannot be fulfilled on {target.labels_of} {quote(target.name)}: the object has been modified; "
            "please apply your changes to the latest version and try again"
        )
        raise _Refused(_about(409, "Conflict", message, target))
    return new


def merged(tree: Any, patch: Any) -> Any:
    """RFC 7386: objects are merged, ``null`` deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(tree) if isinstance(tree, dict) else {}
    for key, change in patch.items():
        if change is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), change)
    return result


# --- answering -------------------------------------------------------------------------------------------------------


def _stored(code: int, admitted: admission.Admitted, target: _Target, unknown: tuple[str, ...]) -> Answer:
    tree = wire_tree(admitted.value, target.api_version)
    return Answer(code, tree, admitted.value, (*unknown, *admitted.warnings))


def _refuse(errors: list[FieldError], target: _Target, name: str) -> None:
    if errors:
        raise _Refused(invalid_status(GROUP, target.resource.kind, name, errors))


def _namespace_labels(target: _Target, world: World) -> Mapping[str, str]:
    if not target.namespace or world.namespaces is None:
        return {}
    labels = world.namespaces.get(target.namespace)
    if labels is None:
        message = f"namespaces {quote(target.namespace)} not found"
        raise _Refused(failure(404, "NotFound", message, {"name": target.namespace, "kind": "namespaces"}))
    return labels


def _about(code: int, reason: str, message: str, target: _Target, name: str = "") -> Tree:
    details = {"name": name or target.name, "group": GROUP, "kind": target.plural}
    return failure(code, reason, message, details)
