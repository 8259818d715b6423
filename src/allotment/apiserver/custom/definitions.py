"""CustomResourceDefinitions: what the server fills in, what it refuses, and whether the names are still to be had.

In Kubernetes a controller accepts the names and establishes the kind a moment after the write. Here that is part of the
write, so that objects of the new kind can follow at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from allotment.apiserver.custom.json_paths import PathError, parse
from allotment.apiserver.custom.rules import rule_problems
from allotment.apiserver.custom.structure import schema_problems
from allotment.apiserver.kinds.checks import service_name_problems
from allotment.apiserver.kinds.kind import Rules, Write
from allotment.model.validation.errors import Errors, FieldError, immutable, invalid, not_supported, required
from allotment.model.validation.names import subdomain_problems

Tree = dict[str, Any]

BUCKET: Final = "customresourcedefinitions.apiextensions.k8s.io"
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_APPROVED: Final = "api-approved.kubernetes.io"
_UNCALLED: Final = (
    "conversion webhooks are not called here: objects look alike in all versions, apart from their apiVersion"
)


# --- what is filled in -----------------------------------------------------------------------------------------------


def default(tree: Tree) -> Tree:
    """A definition with what Kubernetes makes of what is not written."""
    spec = dict(tree.get("spec") or {})
    names = dict(spec.get("names") or {})
    kind = names.get("kind") or ""
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    spec["names"] = names
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    return {**tree, "spec": spec}


def accepted(tree: Tree, write: Write) -> Tree:
    """A definition with the status that tells whether its names are free and its kind is served."""
    spec, status = tree["spec"], dict(tree.get("status") or {})
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    taken = _conflict(tree, write)
    if taken is None:
        told = ("True", "NoConflicts", "no conflicts found")
        status["acceptedNames"] = spec["names"]
    else:
        told = ("False", *taken)
        status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    found = [_condition(conditions, "NamesAccepted", *told, write.now)]
    if taken is None or conditions.get("Established", {}).get("status") == "True":
        text = "the initial names have been accepted"
        found.append(_condition(conditions, "Established", "True", "InitialNamesAccepted", text, write.now))
    else:
        found.append(
            _condition(conditions, "Established", "False", "NotAccepted", "not all names are accepted", write.now)
        )
    kept = [condition for name, condition in conditions.items() if name not in ("NamesAccepted", "Established")]
    status["conditions"] = [*found, *kept]
    stored = [version["name"] for version in spec.get("versions") or () if version.get("storage")]
    before = status.get("storedVersions") or []
    status["storedVersions"] = [*before, *(name for name in stored if name not in before)]
    return {**tree, "status": status}


def _condition(known: Tree, sort: str, status: str, reason: str, message: str, now: str) -> Tree:
    before = known.get(sort) or {}
    since = before["lastTransitionTime"] if before.get("status") == status else now
    return {"type": sort, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


def _conflict(tree: Tree, write: Write) -> tuple[str, str] | None:
    """Which of the names another definition of the group has: reason and message."""
    spec = tree["spec"]
    names = spec["names"]
    resources: set[str] = set()
    kinds: set[str] = set()
    for entry in write.reader.list(BUCKET):
        other = entry.tree
        if entry.name != tree["metadata"].get("name") and other["spec"]["group"] == spec["group"]:
            had = (other.get("status") or {}).get("acceptedNames") or {}
            resources.update((had.get("plural", ""), had.get("singular", ""), *(had.get("shortNames") or ())))
            kinds.update((had.get("kind", ""), had.get("listKind", "")))
    for reason, wanted, taken in (
        ("PluralConflict", [names["plural"]], resources),
        ("SingularConflict", [names["singular"]], resources),
        ("ShortNamesConflict", names.get("shortNames") or [], resources),
        ("KindConflict", [names["kind"]], kinds),
        ("ListKindConflict", [names["listKind"]], kinds),
    ):
        clashes = [name for name in wanted if name in taken]
        if clashes:
            return reason, ", ".join(f'"{name}" is already in use' for name in clashes)
    return None


# --- what is refused -------------------------------------------------------------------------------------------------


def problems(tree: Tree, kube: str) -> Iterator[FieldError]:
    """Everything that keeps a definition from being stored."""
    spec = tree.get("spec") or {}
    names = spec.get("names") or {}
    wanted = f"{names.get('plural') or ''}.{spec.get('group') or ''}"
    name = (tree.get("metadata") or {}).get("name") or ""
    if name and name != wanted:
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    yield from _group(spec)
    scope = spec.get("scope") or ""
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    yield from _versions(spec, kube)
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    yield from _names(names)
    yield from _conversion(spec.get("conversion") or {})
    yield from _approval(tree)
    if spec.get("preserveUnknownFields"):
        yield invalid(
            "spec.preserveUnknownFields", True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        )  # fmt: skip


def _group(spec: Tree) -> Errors:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif wrong := subdomain_problems(group):
        yield invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _versions(spec: Tree, kube: str) -> Errors:
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if wrong := service_name_problems(version.get("name") or ""):
            yield invalid(f"{path}.name", version.get("name") or "", ",".join(wrong))
        yield from _version(version, path, kube)
    if len({version.get("name") for version in versions}) != len(versions):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", versions, "must have exactly one version marked as storage version")


def _version(version: Tree, path: str, kube: str) -> Errors:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    subresources = version.get("subresources") or {}
    if schema:
        where = f"{path}.schema.openAPIV3Schema"
        found = schema_problems(schema, where, has_status=subresources.get("status") is not None)
        yield from found
        if not found:
            yield from rule_problems(schema, where, kube)
    scale = subresources.get("scale")
    if scale is not None:
        yield from _scale(scale, f"{path}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")
    for index, field in enumerate(version.get("selectableFields") or ()):
        yield from _path(field.get("jsonPath") or "", f"{path}.selectableFields[{index}].jsonPath")


def _scale(scale: Tree, path: str) -> Errors:
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        text = scale.get(field) or ""
        if not text:
            yield required(f"{path}.{field}")
        elif not text.startswith(root):
            yield invalid(f"{path}.{field}", text, f"should be a json path under {root[:-1]}")
        else:
            yield from _path(text, f"{path}.{field}")
    text = scale.get("labelSelectorPath") or ""
    if text and not text.startswith((".spec.", ".status.")):
        yield invalid(f"{path}.labelSelectorPath", text, "should be a json path under either .spec or .status")


def _column(column: Tree, path: str) -> Errors:
    sort, form = column.get("type") or "", column.get("format") or ""
    if not column.get("name"):
        yield required(f"{path}.name")
    if not sort:
        yield required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif sort not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", sort, f"must be one of {','.join(_COLUMN_TYPES)}")
    if form and form not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not column.get("jsonPath"):
        yield required(f"{path}.JSONPath")
    else:
        yield from _path(column["jsonPath"], f"{path}.JSONPath")


def _path(text: str, path: str) -> Errors:
    try:
        parse(text)
    except PathError as error:
        yield invalid(path, text, str(error))


def _names(names: Tree) -> Errors:
    path = "spec.names"
    for field in ("plural", "singular"):
        text = names.get(field) or ""
        if text and (wrong := service_name_problems(text)):
            yield invalid(f"{path}.{field}", text, ",".join(wrong))
    for field in ("kind", "listKind"):
        text = names.get(field) or ""
        if text and (wrong := service_name_problems(text.lower())):
            why = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            yield invalid(f"{path}.{field}", text, why)
    for field in ("shortNames", "categories"):
        for index, text in enumerate(names.get(field) or ()):
            if wrong := service_name_problems(text):
                yield invalid(f"{path}.{field}[{index}]", text, ",".join(wrong))
        if field == "shortNames" and names.get("kind") and names.get("kind") == names.get("listKind"):
            yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")


def _conversion(conversion: Tree) -> Errors:
    strategy = conversion.get("strategy") or ""
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    elif strategy == "Webhook" and not (conversion.get("webhook") or {}).get("clientConfig"):
        yield required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")


def _approval(tree: Tree) -> Errors:
    group = (tree.get("spec") or {}).get("group") or ""
    if not any(group == domain or group.endswith(f".{domain}") for domain in ("k8s.io", "kubernetes.io")):
        return
    path = f"metadata.annotations[{_APPROVED}]"
    approval = ((tree.get("metadata") or {}).get("annotations") or {}).get(_APPROVED) or ""
    if not approval:
        yield required(
            path,
            f'protected groups must have approval annotation "{_APPROVED}", '
            "see https://github.com/kubernetes/enhancements/pull/1111",
        )
    elif not approval.startswith(("unapproved", "https://", "http://")):
        yield invalid(
            path, approval, 'protected groups must have approval annotation "api-approved.kubernetes.io" with either a '
            "URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        )  # fmt: skip


def change_problems(new: Tree, old: Tree, kube: str) -> Iterator[FieldError]:
    """Everything that keeps a definition from being changed so."""
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return
    yield from problems(new, kube)
    established = any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in (old.get("status") or {}).get("conditions") or ()
    )
    if established and spec.get("scope") != before.get("scope"):
        yield immutable("spec.scope", spec.get("scope") or "")
    if established and spec["names"].get("kind") != before["names"].get("kind"):
        yield immutable("spec.names.kind", spec["names"].get("kind") or "")
    if spec.get("group") != before.get("group"):
        yield immutable("spec.group", spec.get("group") or "")
    if spec["names"].get("plural") != before["names"].get("plural"):
        yield immutable("spec.names.plural", spec["names"].get("plural") or "")
    named = {version["name"] for version in spec.get("versions") or ()}
    for index, version in enumerate((new.get("status") or {}).get("storedVersions") or ()):
        if version not in named:
            path = f"status.storedVersions[{index}]"
            yield invalid(
                path, version,
                f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {version} and removes "
                f"{version} from status.storedVersions",
            )  # fmt: skip


# --- the rules of the kind -------------------------------------------------------------------------------------------


def _prepare_create(tree: Tree, write: Write) -> Tree:
    spec = tree.get("spec") or {}
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        write.warn(_UNCALLED)
    plain = {name: value for name, value in tree.items() if name != "status"}
    return plain if next(problems(plain, write.features.kube), None) is not None else accepted(plain, write)


def _prepare_update(new: Tree, old: Tree, write: Write) -> Tree:
    if write.subresource == "status" or new["spec"] == old["spec"]:
        return new
    if next(problems(new, write.features.kube), None) is not None:
        return new
    return accepted(new, write)


def _validate_create(tree: Tree, write: Write) -> Iterable[FieldError]:
    return problems(tree, write.features.kube)


def _validate_update(new: Tree, old: Tree, write: Write) -> Iterable[FieldError]:
    return change_problems(new, old, write.features.kube)


DEFINITION_RULES: Final = Rules(
    default=default,
    prepare_create=_prepare_create,
    validate_create=_validate_create,
    prepare_update=_prepare_update,
    validate_update=_validate_update,
    has_generation=True,
)
