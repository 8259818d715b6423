"""Decodes documents into objects: known kinds become values in the v1 shape, custom kinds stay trees.

The tree is checked in the version as written, so that paths and messages refer to the author's file, and is then
converted to the hub version and to a value. Nothing is defaulted or validated here, except that an object of a
namespaced kind without a namespace is in namespace ``default``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from allotment.model import core, resource, storage, workloads
from allotment.model.fields import (
    GROUP,
    REMOVED_KINDS,
    REMOVED_LIFECYCLE,
    REMOVED_VERSION,
    kinds_of,
    shape_of,
    version_key,
    versions_of,
)
from allotment.model.group_versions import to_hub
from allotment.model.loading.documents import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import Object, ObjectKey
from allotment.model.problems import InputProblem, Position
from allotment.model.quoting import quote
from allotment.model.releases import RELEASES, release_key
from allotment.model.strict_decoding import SchemaViolation, StrictlyDecoded, server_text, strict_decode
from allotment.model.trees import to_value
from allotment.model.versions import to_v1
from allotment.time_limits import check_time

# The value types of known kinds, by group and kind.
VALUE_TYPES: Final[dict[tuple[str, str], type[Object]]] = {
    (GROUP, "ResourceSlice"): resource.ResourceSlice,
    (GROUP, "DeviceClass"): resource.DeviceClass,
    (GROUP, "ResourceClaim"): resource.ResourceClaim,
    (GROUP, "ResourceClaimTemplate"): resource.ResourceClaimTemplate,
    (GROUP, "DeviceTaintRule"): resource.DeviceTaintRule,
    (GROUP, "ResourcePoolStatusRequest"): resource.ResourcePoolStatusRequest,
    ("", "Pod"): core.Pod,
    ("", "Node"): core.Node,
    ("", "Namespace"): core.Namespace,
    ("", "PersistentVolume"): storage.PersistentVolume,
    ("", "PersistentVolumeClaim"): storage.PersistentVolumeClaim,
    ("storage.k8s.io", "StorageClass"): storage.StorageClass,
    ("", "ReplicationController"): workloads.ReplicationController,
    ("apps", "Deployment"): workloads.Deployment,
    ("apps", "ReplicaSet"): workloads.ReplicaSet,
    ("apps", "StatefulSet"): workloads.StatefulSet,
    ("apps", "DaemonSet"): workloads.DaemonSet,
    ("batch", "Job"): workloads.Job,
    ("batch", "CronJob"): workloads.CronJob,
    ("scheduling.k8s.io", "PodGroup"): workloads.PodGroup,
}

_CLUSTER_SCOPED: Final = frozenset(
    {
        "DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourcePoolStatusRequest",
        "Node", "Namespace", "PersistentVolume", "ComponentStatus", "PriorityClass", "RuntimeClass", "StorageClass",
        "CSIDriver", "CSINode", "VolumeAttachment", "VolumeAttributesClass", "ClusterRole", "ClusterRoleBinding",
        "IngressClass", "IPAddress", "ServiceCIDR", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration", "CustomResourceDefinition", "SelfSubjectReview", "TokenReview",
        "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview", "DeleteOptions", "Status",
        "APIResourceList",
    }
)  # fmt: skip

# Groups in which all kinds are known; other groups can have custom kinds.
_CLOSED_GROUPS: Final = frozenset({"", GROUP, "scheduling.k8s.io", "extensions"})

# Kinds that were removed from resource.k8s.io, with a hint.
_CLASSIC_DRA_KINDS: Final = dict.fromkeys(
    ("ResourceClass", "ResourceClassParameters", "ResourceClaimParameters", "PodSchedulingContext"),
    "classic DRA, removed in Kubernetes 1.32: use DeviceClass and ResourceClaim of resource.k8s.io/v1",
)


class DecodingError(ValueError):
    """Raised if a document is not a valid object of its kind.

    ``problems``: all problems found. ``server_text``: the API server's error message for them.
    """

    def __init__(self, problems: Iterable[InputProblem], server_text: str = "") -> None:
        self.problems = tuple(problems)
        self.server_text = server_text or "; ".join(problem.message for problem in self.problems)
        super().__init__(self.server_text)


class Manifest:
    """A decoded object.

    ``value``: the value of a known kind in the v1 shape, otherwise the tree as written. ``removed``: the release that
    removed the version as written, or empty.
    """

    __slots__ = ("document", "key", "removed", "value")

    def __init__(self, document: Document, key: ObjectKey, value: Object | dict[str, Any], removed: str = "") -> None:
        self.document = document
        self.key = key
        self.value = value
        self.removed = removed

    def __repr__(self) -> str:
        return f"<Manifest {self.api_version} {self.kind} {self.key}>"

    @property
    def api_version(self) -> str:
        """``apiVersion`` as written."""
        return self.document.api_version

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def kind(self) -> str:
        """``kind`` as written."""
        return self.document.kind

    def position(self, path: Path | str = ()) -> Position:
        """The source position of the value at a field path of the v1 shape, or of its nearest ancestor.

        ``path``: steps, or text as validation spells it: ``spec.devices.requests[0].exactly.count``.
        """
        return self.document.position(path)


class DecodedManifests(NamedTuple):
    """The objects of documents, and the problems of the documents that cannot be decoded."""

    manifests: list[Manifest]
    problems: list[InputProblem]


def decode_all(documents: Iterable[Document], *, strict: bool = True, release: str = "") -> DecodedManifests:
    """Decode all documents and collect their problems instead of raising."""
    decoded = DecodedManifests([], [])
    for document in documents:
        check_time()
        try:
            decoded.manifests.append(decode(document, strict=strict, release=release))
        except DecodingError as error:
            decoded.problems.extend(error.problems)
    return decoded


def decode(document: Document, *, strict: bool = True, release: str = "") -> Manifest:
    """Decode the object in a document. Raises ``DecodingError``.

    ``strict``, kubectl's default: unknown fields are errors. Otherwise they are dropped, as the server does with
    ``fieldValidation=Ignore``; wrong types are always errors. ``release``: the Kubernetes release whose kinds and
    fields are known; if empty, or if not strict and the release does not have the kind, the kind has the fields of the
    newest release that has it.
    """
    tree = document.tree
    version, kind = document.api_version, document.kind
    _require_type(document)
    shape = shape_of(version, kind, release) or (None if strict else shape_of(version, kind))
    if shape is None:
        _reject_unknown_kind(document, release)
        _require_names(document)
        return Manifest(document, _key(tree, namespaced=None), tree)
    checked = strict_decode(tree, version, kind, shape, release=release)
    violations = [violation for violation in checked.violations if strict or violation.category != "unknown"]
    if violations:
        raise DecodingError(
            (_problem(document, violation) for violation in violations),
            f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: '
            f"{server_text(violations)}",
        )
    return _decoded_manifest(document, checked)


def _decoded_manifest(document: Document, checked: StrictlyDecoded) -> Manifest:
    tree = to_hub(to_v1(checked.tree))
    kind = document.kind
    key = _key(tree, namespaced=kind not in _CLUSTER_SCOPED)
    is_removed = document.api_version == REMOVED_VERSION and kind in REMOVED_KINDS
    removed = REMOVED_LIFECYCLE.removed if is_removed else ""
    group = document.api_version.rpartition("/")[0]
    value_type = VALUE_TYPES.get((group, kind))
    if value_type is None:
        return Manifest(document, key, checked.tree, removed)
    metadata = tree.get("metadata") or {}
    if metadata.get("namespace", "") != key.namespace:
        tree = {**tree, "metadata": {**metadata, "namespace": key.namespace}}
    return Manifest(document, key, to_value(tree, value_type), removed)


def _key(tree: dict[str, Any], *, namespaced: bool | None) -> ObjectKey:
    """Namespace and name. The scope of custom kinds is unknown: they keep the namespace as written."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    if namespaced is False:
        return ObjectKey("", name)
    return ObjectKey(metadata.get("namespace") or ("default" if namespaced else ""), name)


def _require_type(document: Document) -> None:
    tree = document.tree
    for field, name in (("kind", "Kind"), ("apiVersion", "apiVersion")):
        value = tree.get(field)
        if value is not None and not isinstance(value, str):
            message = f"{field} is not a string"
            raise DecodingError([_make_problem("no-kind", message, document.position((field,)), field)])
        if not value:
            message = f"Object '{name}' is missing"
            hint = "every object needs apiVersion and kind; fragments and values files are not objects"
            raise DecodingError([_make_problem("no-kind", message, document.position(), hint=hint)])


def _require_names(document: Document) -> None:
    """Check the types of the metadata fields that identify an object; this applies to custom kinds, too."""
    metadata = document.tree.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise DecodingError(
            [_make_problem("wrong-type", "metadata is not an object", document.position(("metadata",)), "metadata")]
        )
    for field in ("name", "generateName", "namespace"):
        value = (metadata or {}).get(field)
        if value is not None and not isinstance(value, str):
            path = f"metadata.{field}"
            position = document.position(("metadata", field))
            raise DecodingError(
                [_make_problem("wrong-type", f"{path} is not a string", position, path, "put it in quotes")]
            )


def _reject_unknown_kind(document: Document, release: str) -> None:
    """Raise for a kind that a known group does not have; other unknown kinds are custom kinds."""
    version, kind = document.api_version, document.kind
    kinds = kinds_of(version, release)
    group = version.rpartition("/")[0]
    if not kinds_of(version) and group not in _CLOSED_GROUPS and (group, kind) not in VALUE_TYPES:
        return
    message = f"no matches for kind {quote(kind)} in version {quote(version)}"
    hint, suggestion, field = "", "", "kind"
    elsewhere = [other for other in versions_of(kind, release) if other != REMOVED_VERSION]
    close = difflib.get_close_matches(kind, kinds, n=1)
    if kind in _CLASSIC_DRA_KINDS and group == GROUP:
        hint = _CLASSIC_DRA_KINDS[kind]
    elif kind in kinds_of(version):
        hint, field = _other_release(version, kind, release), "apiVersion"
        in_group = (other for other in elsewhere if other.rpartition("/")[0] == group)
        suggestion = max(in_group, key=version_key, default="")
        hint += f"; {release} has {suggestion}" if suggestion else ""
    elif elsewhere:
        hint, suggestion, field = f"did you mean {elsewhere[0]}?", elsewhere[0], "apiVersion"
    elif close:
        hint, suggestion = f"did you mean {close[0]}?", close[0]
    problem = _make_problem("no-such-kind", message, document.position((field,)), field, hint, suggestion)
    raise DecodingError([problem])


def _other_release(version: str, kind: str, release: str) -> str:
    """The releases that have a version of a kind which a release does not have."""
    found = [name for name in RELEASES if kind in kinds_of(version, name)]
    if found and release_key(found[0]) > release_key(release):
        return f"{version} has {kind} since Kubernetes {found[0]}"
    return f"{version} had {kind} until Kubernetes {found[-1]}" if found else ""


def _problem(document: Document, violation: SchemaViolation) -> InputProblem:
    unknown = violation.category == "unknown"
    code = {"unknown": "unknown-field", "type": "wrong-type", "value": "bad-value"}[violation.category]
    position = document.position(violation.path, at="key" if unknown else "value")
    return _make_problem(
        code, violation.message, position, _field_path(violation.path), violation.hint, violation.suggestion
    )


def _make_problem(
    code: str, message: str, position: Position, path: str = "", hint: str = "", suggestion: str = ""
) -> InputProblem:
    return InputProblem(code=code, message=message, position=position, path=path, hint=hint, suggestion=suggestion)


def _field_path(path: Path) -> str:
    return "".join(_path_parts(path)).removeprefix(".")


def _path_parts(path: Path) -> Iterator[str]:
    for step in path:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"
