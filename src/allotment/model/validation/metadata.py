"""Object metadata: names, labels, annotations, owners, finalizers, and immutable fields.

Upstream: apimachinery ``pkg/api/validation/objectmeta.go``. Managed fields are not part of object values; the API
server that stores them validates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from allotment.model.meta import ObjectMeta, OwnerReference
from allotment.model.quoting import quote
from allotment.model.validation import names
from allotment.model.validation.errors import Errors, forbidden, immutable, internal, invalid, required, too_long
from allotment.model.validation.gotext import GoNamedString, size

ANNOTATIONS_MAX = 256 * 1024
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD = (_ORPHAN, _FOREGROUND, "kubernetes")

#: Metadata fields in Go's order, except labels and annotations: attribute and name in paths.
_NOT_IN_TEMPLATES = (
    ("name", "name"), ("generate_name", "generateName"), ("namespace", "namespace"), ("uid", "uID"),
    ("resource_version", "resourceVersion"), ("generation", "generation"), ("creation_timestamp", "creationTimestamp"),
    ("deletion_timestamp", "deletionTimestamp"), ("deletion_grace_period_seconds", "deletionGracePeriodSeconds"),
    ("owner_references", "ownerReferences"), ("finalizers", "finalizers"),
)  # fmt: skip


def object_meta(
    meta: ObjectMeta,
    *,
    namespaced: bool,
    prefix: bool = True,
    path: str = "metadata",
    name_problems: Callable[[str], Iterable[str]] | None = None,
) -> Errors:
    """Validate the metadata of an object whose name is generated already.

    ``prefix``: whether to validate ``generateName``, too, with lengths in "characters"; DeviceClass has newer rules
    without both. ``name_problems``: validates names of kinds whose names are not DNS subdomains.
    """
    if prefix:
        if meta.generate_name:
            problems = (
                name_problems(names.as_prefix(meta.generate_name))
                if name_problems
                else names.prefix_problems(meta.generate_name)
            )
            for problem in problems:
                yield invalid(f"{path}.generateName", meta.generate_name, problem)
    elif meta.generate_name and not meta.name:
        yield internal(
            f"{path}.name", f"generateName was specified ({quote(meta.generate_name)}), but no name was generated"
        )
    if not meta.name:
        yield required(f"{path}.name", "name or generateName is required")
    else:
        unit = "characters" if prefix else "bytes"
        for problem in name_problems(meta.name) if name_problems else names.subdomain_problems(meta.name, unit=unit):
            yield invalid(f"{path}.name", meta.name, problem)
    yield from _common_fields(meta, namespaced=namespaced, path=path)
    yield from _standard_finalizers(meta, path)


def _common_fields(meta: ObjectMeta, *, namespaced: bool, path: str) -> Errors:
    if namespaced:
        if not meta.namespace:
            yield required(f"{path}.namespace")
        else:
            yield from names.label(meta.namespace, f"{path}.namespace")
    elif meta.namespace:
        yield forbidden(f"{path}.namespace", "not allowed on this type")
    if meta.generation < 0:
        yield invalid(f"{path}.generation", meta.generation, "must be greater than or equal to 0")
    yield from check_labels(meta.labels, f"{path}.labels")
    yield from check_annotations(meta.annotations, f"{path}.annotations")
    yield from owner_references(meta.owner_references, f"{path}.ownerReferences")
    yield from finalizers(meta.finalizers, f"{path}.finalizers")


def common_update(new: ObjectMeta, old: ObjectMeta, *, namespaced: bool) -> Errors:
    """Validate an update by the API machinery's rules, before those of the kind, which check most of them again.

    An error in metadata therefore occurs several times among the causes.
    """
    if not new.name:
        yield required("metadata.name", "name or generateName is required")
    elif new.name in (".", ".."):
        yield invalid("metadata.name", new.name, f"may not be '{new.name}'")
    for illegal in "/%":
        if illegal in new.name:
            yield invalid("metadata.name", new.name, f"may not contain '{illegal}'")
    yield from _common_fields(new, namespaced=namespaced, path="metadata")
    yield from _update(new, old, "metadata")


def object_meta_update(new: ObjectMeta, old: ObjectMeta, path: str = "metadata") -> Errors:
    """Validate the metadata of an update against the stored metadata."""
    yield from _update(new, old, path)
    yield from _standard_finalizers(new, path)


def _update(new: ObjectMeta, old: ObjectMeta, path: str) -> Errors:
    if old.deletion_timestamp is not None:
        added = sorted(set(new.finalizers) - set(old.finalizers))
        if added:
            listed = "[]string{" + ", ".join(map(quote, added)) + "}"
            yield forbidden(
                f"{path}.finalizers",
                f"no new finalizers can be added if the object is being deleted, found new finalizers {listed}",
            )
    if not new.resource_version:
        yield invalid(f"{path}.resourceVersion", "", "must be specified for an update")
    if new.generation < old.generation:
        yield invalid(f"{path}.generation", new.generation, "must not be decremented")
    for attribute, name in (
        ("name", "name"), ("namespace", "namespace"), ("uid", "uid"), ("creation_timestamp", "creationTimestamp"),
        ("deletion_timestamp", "deletionTimestamp"), ("deletion_grace_period_seconds", "deletionGracePeriodSeconds"),
    ):  # fmt: skip
        value = getattr(new, attribute)
        if value != getattr(old, attribute):
            yield immutable(f"{path}.{name}", GoNamedString(value) if name == "uid" else value)
    yield from check_labels(new.labels, f"{path}.labels")
    yield from check_annotations(new.annotations, f"{path}.annotations")
    yield from owner_references(new.owner_references, f"{path}.ownerReferences")


def template_meta(meta: ObjectMeta, path: str) -> Errors:
    """Validate the metadata of a template: only labels and annotations may be set."""
    yield from check_annotations(meta.annotations, f"{path}.annotations")
    yield from check_labels(meta.labels, f"{path}.labels")
    for attribute, name in _NOT_IN_TEMPLATES:
        if getattr(meta, attribute) not in ("", 0, None, ()):
            yield forbidden(f"{path}.{name}", "cannot be set")


def check_labels(values: Mapping[str, str], path: str) -> Errors:
    """Validate label keys and values."""
    for key in sorted(values):
        yield from names.label_key(key, path)
        yield from names.label_value(values[key], path)


def check_annotations(values: Mapping[str, str], path: str) -> Errors:
    """Validate annotation keys (like label keys, ignoring case) and the total size."""
    for key in sorted(values):
        for problem in names.label_key_problems(key.lower()):
            yield invalid(path, key, problem)
    if sum(size(key) + size(value) for key, value in values.items()) > ANNOTATIONS_MAX:
        yield too_long(path, ANNOTATIONS_MAX)


def owner_references(references: Sequence[OwnerReference], path: str) -> Errors:
    """Validate owners: complete, at most one controller, no Event."""
    controller = ""
    for reference in references:
        group, _, version = reference.api_version.rpartition("/")
        if "/" in group:  # invalid; upstream parses it as empty
            group = version = ""
        if not version:
            yield invalid(f"{path}.apiVersion", reference.api_version, "version must not be empty")
        for value, name in ((reference.kind, "kind"), (reference.name, "name"), (reference.uid, "uid")):
            if not value:
                yield invalid(f"{path}.{name}", value, "must not be empty")
        if (group, version, reference.kind) == ("", "v1", "Event"):
            yield invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner")
        if reference.controller:
            current = f"{reference.kind}/{reference.name}"
            if controller:
                yield invalid(
                    path,
                    tuple(references),
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {current}",
                )
            else:
                controller = current


def finalizers(values: Sequence[str], path: str) -> Errors:
    """Validate finalizers: qualified names; orphan and foreground deletion exclude each other."""
    for value in values:
        yield from names.label_key(value, path)
    if _ORPHAN in values and _FOREGROUND in values:
        yield invalid(path, tuple(values), f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set")


def _standard_finalizers(meta: ObjectMeta, path: str) -> Errors:
    """Validate that a finalizer without a domain is one of Kubernetes' own."""
    for index, value in enumerate(meta.finalizers):
        if "/" not in value and value not in _STANDARD:
            yield invalid(
                f"{path}.finalizers[{index}]",
                value,
                "name is neither a standard finalizer name nor is it fully qualified",
            )
