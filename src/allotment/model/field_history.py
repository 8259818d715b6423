"""The releases that have a field, for advice about fields that a requested release does not have.

A field of a newer or older release is not a typing error: correcting it to a similar name would change its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from allotment.model.fields import TypeShape, shape_of, versions_of
from allotment.model.pruning import Path
from allotment.model.releases import RELEASES

#: Fields that a field with another structure replaced, by Go struct. The release tables do not state this.
#: KEP-5517 (node-allocatable resources), KEP-4671 (groups of pods).
REPLACEMENTS: Final = {
    ("Device", "nodeAllocatableResourceMappings"): "nodeAllocatableResources",
    ("BasicDevice", "nodeAllocatableResourceMappings"): "nodeAllocatableResources",
    ("PodSpec", "workloadRef"): "schedulingGroup",
    ("PodGroupSpec", "podGroupTemplateRef"): "workloadRef",
    ("NodeAllocatableResourceClaimStatus", "resources"): "mapping",
}
_GROUPS: Final = ("resource.k8s.io", "scheduling.k8s.io")
_FORMER_NAMES: Final = {(struct, new): old for (struct, old), new in REPLACEMENTS.items()}


def shape_at(shape: TypeShape | None, path: Path) -> TypeShape | None:
    """The type of a valid value at a path; None if the path is not valid."""
    for step in path:
        if shape is None:
            return None
        if shape.form == "struct":
            field = shape.fields.get(str(step))
            shape = field.shape if field else None
        else:
            shape = shape.element
    return shape


def releases_with(api_version: str, kind: str, path: Path) -> tuple[str, ...]:
    """The modeled releases in which a kind has the field at a path, oldest first.

    >>> releases_with("resource.k8s.io/v1", "ResourceSlice", ("spec", "skipNodeOperations"))
    ('1.37',)
    """
    return tuple(release for release in RELEASES if shape_at(shape_of(api_version, kind, release), path) is not None)


def release_advice(api_version: str, kind: str, path: Path, release: str, struct: str = "") -> str:
    """The advice for a field that a release does not have, but another release; empty if none has it.

    ``release``: empty for the newest one that has the kind. ``struct``: the Go struct in which the field is written.

    >>> release_advice("resource.k8s.io/v1", "ResourceSlice", ("spec", "skipNodeOperations"), "1.36")
    'skipNodeOperations exists since Kubernetes 1.37'
    """
    name = str(path[-1])
    found = releases_with(api_version, kind, path) or _nested_releases(api_version, kind, path)
    position = _position(api_version, kind, release)
    if RELEASES[position] in found:
        return ""
    newer = [known for known in found if RELEASES.index(known) > position]
    older = [known for known in found if RELEASES.index(known) < position]
    if newer:
        former = _FORMER_NAMES.get((struct, name), "")
        exists = f"{name} exists since Kubernetes {newer[0]}"
        return f"{exists}; {release} has {former}" if former and release else exists
    if older:
        removed = RELEASES[RELEASES.index(older[-1]) + 1]
        new = REPLACEMENTS.get((struct, name))
        return f"{name} was replaced by {new} in Kubernetes {removed}" if new else f"removed in Kubernetes {removed}"
    return ""


def version_advice(api_version: str, kind: str, path: Path, struct: str = "") -> str:
    """The advice for a field that only other versions of the kind have; empty if none has it."""
    name = str(path[-1])
    elsewhere = [version for version in _other_versions(api_version, kind) if _exists_in(version, kind, path)]
    if not elsewhere:
        return ""
    new = REPLACEMENTS.get((struct, name))
    if new and _exists_in(api_version, kind, (*path[:-1], new)):
        return f"{name} was replaced by {new} in {api_version}"
    return f"{name} belongs to {' and '.join(elsewhere)}, not to {api_version}"


def _nested_releases(api_version: str, kind: str, path: Path) -> tuple[str, ...]:
    """The releases in which a struct next to the field has it, as ``exactly`` has the fields of a flat request."""
    return tuple(release for release in RELEASES if _has_nested(shape_of(api_version, kind, release), path))


def _has_nested(shape: TypeShape | None, path: Path) -> bool:
    struct = shape_at(shape, path[:-1])
    if struct is None or struct.form != "struct":
        return False
    return any(
        field.shape.form == "struct" and path[-1] in field.shape.fields and name != "metadata"
        for name, field in struct.fields.items()
    )


def _position(api_version: str, kind: str, release: str) -> int:
    """The index of a release; of the newest one that has the kind, if it is empty or does not have the kind."""
    if release and shape_of(api_version, kind, release) is not None:
        return RELEASES.index(release)
    known = [index for index, name in enumerate(RELEASES) if shape_of(api_version, kind, name) is not None]
    return known[-1] if known else len(RELEASES) - 1


def _other_versions(api_version: str, kind: str) -> Iterator[str]:
    """The other versions of a kind, in the groups whose versions have different fields."""
    group = api_version.rpartition("/")[0]
    if group in _GROUPS:
        for version in versions_of(kind):
            if version != api_version and version.rpartition("/")[0] == group:
                yield version


def _exists_in(api_version: str, kind: str, path: Path) -> bool:
    struct = shape_at(shape_of(api_version, kind), path[:-1])
    return struct is not None and path[-1] in struct.fields
