"""From documents to objects: known kinds become values in the v1 shape, custom kinds stay trees.

Judgement comes first and on the version as written, so that paths and texts are those of the author's file; then the
tree is converted to the hub version and becomes a value. Nothing is defaulted or validated here, except that an object
of a namespaced kind lives in namespace ``default`` when it names none.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from allotment.model import core, resource, storage, workloads
from allotment.model.fields import GROUP, REMOVED_KINDS, REMOVED_VERSION, kinds_of, shape_of, versions_of
from allotment.model.loading.documents import Document
from allotment.model.loading.marks import Path
from allotment.model.meta import Object, ObjectKey
from allotment.model.problems import InputProblem, Position
from allotment.model.quoting import quote
from allotment.model.strict_decoding import SchemaViolation, StrictlyDecoded, server_text, strict_decode
from allotment.model.trees import to_value
from allotment.model.versions import to_v1

# The kinds that become values, by group and kind.
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

# Kinds that resource.k8s.io once had, and what became of them.
_CLASSIC: Final = dict.fromkeys(
    ("ResourceClass", "ResourceClassParameters", "ResourceClaimParameters", "PodSchedulingContext"),
    "classic DRA, removed in Kubernetes 1.32: write DeviceClass and ResourceClaim of resource.k8s.io/v1",
)


class DecodingError(ValueError):
    """Raised when a document is no object of its kind.

    ``problems`` are all that was found; ``server_text`` is what the API server would say of them.
    """

    def __init__(self, problems: Iterable[InputProblem], server_text: str = "") -> None:
        self.problems = tuple(problems)
        self.server_text = server_text or "; ".join(problem.message for problem in self.problems)
        super().__init__(self.server_text)


class Manifest:
    """An object as it was read.

    ``value`` is the object value of a known kind, in the v1 shape, and otherwise the tree as written.
    ``api_version`` is the version as written. ``removed`` names the release that dropped that version, or is empty.
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
        """The API group; the core group is empty."""
        return self.api_version.rpartition("/")[0]

    @property
    def kind(self) -> str:
        """``kind`` as written."""
        return self.document.kind

    def position(self, path: Path | str = ()) -> Position:
        """Where the value at a field path of the v1 shape was written, or its nearest ancestor.

        ``path`` is steps, or text as validation spells it: ``spec.devices.requests[0].exactly.count``.
        """
        return self.document.position(path)


class DecodedManifests(NamedTuple):
    """The objects of some documents, and everything that is wrong with the rest."""

    manifests: list[Manifest]
    problems: list[InputProblem]


def decode_all(documents: Iterable[Document], *, strict: bool = True) -> DecodedManifests:
    """Decode every document, collecting problems instead of raising."""
    decoded = DecodedManifests([], [])
    for document in documents:
        try:
            decoded.manifests.append(decode(document, strict=strict))
        except DecodingError as error:
            decoded.problems.extend(error.problems)
    return decoded


def decode(document: Document, *, strict: bool = True) -> Manifest:
    """The object that a document holds. Raises ``DecodingError``.

    ``strict`` is kubectl's default: unknown fields are errors. Without it they are dropped, as the server does when
    asked to ignore them; wrong types are errors always.
    """
    tree = document.tree
    version, kind = document.api_version, document.kind
    _require_type(document)
    shape = shape_of(version, kind)
    if shape is None:
        _refuse_unknown(document)
        _require_names(document)
        return Manifest(document, _key(tree, namespaced=None), tree)
    checked = strict_decode(tree, version, kind, shape)
    misfits = [misfit for misfit in checked.violations if strict or misfit.category != "unknown"]
    if misfits:
        raise DecodingError(
            (_problem(document, misfit) for misfit in misfits),
            f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: {server_text(misfits)}',
        )
    return _manifest(document, checked)


def _manifest(document: Document, checked: StrictlyDecoded) -> Manifest:
    tree = to_v1(checked.tree)
    kind = document.kind
    key = _key(tree, namespaced=kind not in _CLUSTER_SCOPED)
    removed = "1.34" if document.api_version == REMOVED_VERSION and kind in REMOVED_KINDS else ""
    group = document.api_version.rpartition("/")[0]
    value_type = VALUE_TYPES.get((group, kind))
    if value_type is None:
        return Manifest(document, key, checked.tree, removed)
    metadata = tree.get("metadata") or {}
    if metadata.get("namespace", "") != key.namespace:
        tree = {**tree, "metadata": {**metadata, "namespace": key.namespace}}
    return Manifest(document, key, to_value(tree, value_type), removed)


def _key(tree: dict[str, Any], *, namespaced: bool | None) -> ObjectKey:
    """Namespace and name; of custom kinds nobody knows the scope here, they keep what is written."""
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
            message = f"{field} is no string"
            raise DecodingError([_fault("no-kind", message, document.position((field,)), field)])
        if not value:
            message = f"Object '{name}' is missing"
            hint = "every object starts with apiVersion and kind; fragments and values files are no objects"
            raise DecodingError([_fault("no-kind", message, document.position(), hint=hint)])


def _require_names(document: Document) -> None:
    """What even a custom object must have the right type of, for anybody to speak of it."""
    metadata = document.tree.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise DecodingError(
            [_fault("wrong-type", "metadata is no object", document.position(("metadata",)), "metadata")]
        )
    for field in ("name", "generateName", "namespace"):
        value = (metadata or {}).get(field)
        if value is not None and not isinstance(value, str):
            path = f"metadata.{field}"
            position = document.position(("metadata", field))
            raise DecodingError([_fault("wrong-type", f"{path} is no string", position, path, "put it in quotes")])


def _refuse_unknown(document: Document) -> None:
    """Kinds that a known group does not have are mistakes; everything else is somebody's custom kind."""
    version, kind = document.api_version, document.kind
    known = kinds_of(version)
    group = version.rpartition("/")[0]
    if not known and group not in ("", GROUP, "extensions") and (group, kind) not in VALUE_TYPES:
        return
    message = f"no matches for kind {quote(kind)} in version {quote(version)}"
    hint, suggestion, at = "", "", "kind"
    elsewhere = [other for other in versions_of(kind) if other != REMOVED_VERSION]
    close = difflib.get_close_matches(kind, known, n=1)
    if kind in _CLASSIC and group == GROUP:
        hint = _CLASSIC[kind]
    elif elsewhere:
        hint, suggestion, at = f"did you mean {elsewhere[0]}?", elsewhere[0], "apiVersion"
    elif close:
        hint, suggestion = f"did you mean {close[0]}?", close[0]
    problem = _fault("no-such-kind", message, document.position((at,)), at, hint, suggestion)
    raise DecodingError([problem])


def _problem(document: Document, misfit: SchemaViolation) -> InputProblem:
    unknown = misfit.category == "unknown"
    code = {"unknown": "unknown-field", "type": "wrong-type", "value": "bad-value"}[misfit.category]
    position = document.position(misfit.path, at="key" if unknown else "value")
    return _fault(code, misfit.message, position, _dotted(misfit.path), misfit.hint, misfit.suggestion)


def _fault(
    code: str, message: str, position: Position, path: str = "", hint: str = "", suggestion: str = ""
) -> InputProblem:
    return InputProblem(code=code, message=message, position=position, path=path, hint=hint, suggestion=suggestion)


def _dotted(path: Path) -> str:
    return "".join(_steps(path)).removeprefix(".")


def _steps(path: Path) -> Iterator[str]:
    for step in path:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"
