"""Sets and validates the metadata of created and updated objects.

Validation itself is in the model. Most writes have valid metadata that was seen before, so a cheap check comes first,
and only metadata that does not pass it is decoded and validated in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from allotment.apiserver.kinds.kind import ServedKind
from allotment.model.meta import ObjectMeta
from allotment.model.trees import Tree, to_value
from allotment.model.validation import metadata as rules
from allotment.model.validation.errors import FieldError
from allotment.model.validation.names import label_key_problems, label_value_problems

#: The fields in the order of Go's ObjectMeta.
_ORDER: Final = (
    "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip
#: A generated name including its suffix must fit a DNS label (63 characters), whatever the kind.
_PREFIX_MAX: Final = 63 - 5
_SET_BY_SERVER: Final = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
#: Fields that an update may change.
_MUTABLE: Final = ("labels", "annotations", "ownerReferences", "finalizers")
_SMALL_ANNOTATIONS: Final = 4096


def ordered(fields: Mapping[str, Any]) -> Tree:
    """Metadata in Go's field order without empty fields; ``deletionGracePeriodSeconds: 0`` is kept."""
    return {
        name: fields[name]
        for name in _ORDER
        if name in fields and (fields[name] or (fields[name] == 0 and name == "deletionGracePeriodSeconds"))
    }


def new_metadata(
    requested: Tree, *, namespace: str, uid: str, now: str, suffix: Callable[[], str], generation: bool
) -> Tree:
    """The metadata of a new object."""
    name = requested.get("name") or ""
    prefix = requested.get("generateName") or ""
    if not name and prefix:
        name = prefix[:_PREFIX_MAX] + suffix()
    fields = {key: value for key, value in requested.items() if key not in _SET_BY_SERVER}
    fields.update(name=name, namespace=namespace, uid=uid, resourceVersion="0", creationTimestamp=now)
    if generation:
        fields["generation"] = 1
    return ordered(fields)


def updated_metadata(requested: Tree, old: Tree) -> Tree:
    """The metadata of an updated object; fields that clients cannot set keep their old values."""
    fields = dict(requested)
    for key in ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"):
        fields[key] = old.get(key)
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if old.get(key) is not None and (key == "deletionTimestamp" or requested.get(key) is None):
            fields[key] = old[key]
    return ordered(fields)


def create_problems(meta: Tree, kind: ServedKind) -> Iterable[FieldError]:
    """Validation errors for the metadata of a new object."""
    if _is_known_valid(meta) and not kind.rules.name(meta.get("name") or "") and "generateName" not in meta:
        return ()
    value = to_value(meta, ObjectMeta)
    return rules.object_meta(value, namespaced=kind.namespaced, name_problems=kind.rules.name)


def update_problems(new: Tree, old: Tree, kind: ServedKind) -> Iterable[FieldError]:
    """Validation errors for the metadata of an updated object; some appear twice, because upstream validates twice."""
    same = all(new.get(key) == old.get(key) for key in (*_MUTABLE, "deletionTimestamp", "deletionGracePeriodSeconds"))
    if same or (_is_known_valid(new) and "deletionTimestamp" not in new):
        return ()
    value, before = to_value(new, ObjectMeta), to_value(old, ObjectMeta)
    return (*rules.common_update(value, before, namespaced=kind.namespaced), *rules.object_meta_update(value, before))


def _is_known_valid(meta: Tree) -> bool:
    """Whether the labels and annotations are known to be valid and no other field needs validation."""
    if "ownerReferences" in meta or "finalizers" in meta or meta.get("generation", 0) < 0 or not meta.get("name"):
        return False
    labels, annotations = meta.get("labels"), meta.get("annotations")
    if labels and not all(map(_is_valid_label, labels.items())):
        return False
    return not annotations or (
        all(map(_is_valid_key, annotations))
        and sum(map(len, annotations.values())) < _SMALL_ANNOTATIONS
        and len(annotations) < 64
    )


@lru_cache(maxsize=8192)
def _is_valid_label(label: tuple[str, str]) -> bool:
    return not label_key_problems(label[0]) and not label_value_problems(label[1])


@lru_cache(maxsize=2048)
def _is_valid_key(key: str) -> bool:
    return not label_key_problems(key.lower())
