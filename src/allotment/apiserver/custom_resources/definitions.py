"""CustomResourceDefinitions: what the server fills in, what it refuses, and whether the names are still to be had.

In Kubernetes a controller accepts the names and establishes the kind a moment after the write. Here that is part of the
write, so that objects of the new kind can follow at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from allotment.apiserver.custom_resources.structural_schema import schema_problems
from allotment.apiserver.custom_resources.validation_rules import rule_problems
from allotment.apiserver.kinds.defaults import defaults_for
from allotment.apiserver.kinds.field_validation import service_name_problems
from allotment.apiserver.kinds.kind import Rules, Write
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, FieldError, immutable, invalid, not_supported, required
from allotment.model.validation.names import subdomain_problems

BUCKET: Final = "customresourcedefinitions.apiextensions.k8s.io"
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_APPROVED: Final = "api-approved.kubernetes.io"
_UNCALLED: Final = (
    "conversion webhooks are not called here: objects look alike in all versions, apart from their apiVersion"
)


# --- names -----------------------------------------------------------------------------------------------


def accepted(tree: Tree, write: Write) -> Tree:
    """A definition with the status that tells whether its names are free and its kind is served."""
    status = dict(tree.get("status") or {})
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    names, conflicts = _names_free(tree, write)
    status["acceptedNames"] = names
    told = ("False", *conflicts[-1]) if conflicts else ("True", "NoConflicts", "no conflicts found")
    found = [_condition(conditions, "NamesAccepted", *told, write.now)]
    if not conflicts or conditions.get("Established", {}).get("status") == "True":
        text = "the initial names have been accepted"
        found.append(_condition(conditions, "Established", "True", "InitialNamesAccepted", text, write.now))
    else:
        found.append(
            _condition(conditions, "Established", "False", "NotAccepted", "not all names are accepted", write.now)
        )
    kept = [condition for name, condition in conditions.items() if name not in ("NamesAccepted", "Established")]
    status["conditions"] = [*found, *kept]
    return {**tree, "status": status}


def with_stored_version(tree: Tree) -> Tree:
    """A definition that remembers its storage version among those in which objects may be stored."""
    status = dict(tree.get("status") or {})
    stored = status.get("storedVersions") or []
    for version in (tree.get("spec") or {}).get("versions") or ():
        if version.get("storage") and version.get("name"):
            if version["name"] not in stored:
                status["storedVersions"] = [*stored, version["name"]]
            break
    return {**tree, "status": status}


def _condition(known: Tree, sort: str, status: str, reason: str, message: str, now: str) -> Tree:
    before = known.get(sort) or {}
    since = before["lastTransitionTime"] if before.get("status") == status else now
    return {"type": sort, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


def _names_free(tree: Tree, write: Write) -> tuple[Tree, list[tuple[str, str]]]:
    """The names that no other definition of the group has, and a reason and message for each that one has."""
    wanted: Tree = tree["spec"]["names"]
    resources, kinds = _taken(tree, write)
    free: Tree = {"plural": "", "kind": ""}
    conflicts = []
    for field, reason, taken in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        value = wanted.get(field)
        clashes = [name for name in (value if isinstance(value, list) else [value]) if name in taken]
        if clashes:
            conflicts.append((reason, ", ".join(f'"{name}" is already in use' for name in clashes)))
        elif value:
            free[field] = value
    if wanted.get("categories"):
        free["categories"] = wanted["categories"]
    return free, conflicts


def _taken(tree: Tree, write: Write) -> tuple[set[str], set[str]]:
    """The names of resources and of kinds that other definitions of the group have."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for entry in write.reader.list(BUCKET):
        if entry.name != tree["metadata"].get("name") and entry.tree["spec"]["group"] == tree["spec"]["group"]:
            had = (entry.tree.get("status") or {}).get("acceptedNames") or {}
            resources.update((had.get("plural", ""), had.get("singular", ""), *(had.get("shortNames") or ())))
            kinds.update((had.get("kind", ""), had.get("listKind", "")))
    return resources - {""}, kinds - {""}


# --- what is refused -------------------------------------------------------------------------------------------------


def problems(tree: Tree, kube: str) -> Iterator[FieldError]:
    """Everything that keeps a definition from being stored."""
    spec = tree.get("spec") or {}
    names = spec.get("names") or {}
    yield from _group(spec)
    scope = spec.get("scope") or ""
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    versions = spec.get("versions") or []
    common = _Common.of(versions)
    yield from _versions(versions, common, kube)
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    yield from _names(names)
    if versions:
        yield from _parts(versions[0], "spec", common, kube, schema="spec.validation")
    yield from _conversion(spec.get("conversion") or {})
    yield from _stored(tree.get("status") or {}, versions)
    yield from _approval(tree)
    if spec.get("preserveUnknownFields"):
        yield invalid(
            "spec.preserveUnknownFields", True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        )  # fmt: skip


def _name(tree: Tree) -> Errors:
    """A definition is called like what it defines."""
    spec = tree.get("spec") or {}
    wanted = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    name = (tree.get("metadata") or {}).get("name") or ""
    if name and name != wanted:
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


class _Common(NamedTuple):
    """Which parts all versions have in common: Kubernetes judges these once, and as parts of the spec itself."""

    schema: bool
    subresources: bool
    columns: bool

    @staticmethod
    def of(versions: list[Tree]) -> _Common:
        def same(part: str) -> bool:
            return all(version.get(part) == versions[0].get(part) for version in versions)

        return _Common(same("schema"), same("subresources"), same("additionalPrinterColumns"))


def _group(spec: Tree) -> Errors:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif wrong := subdomain_problems(group):
        yield invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _versions(versions: list[Tree], common: _Common, kube: str) -> Errors:
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    apart = _Common(*(not part for part in common))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if wrong := service_name_problems(version.get("name") or ""):
            yield invalid(f"{path}.name", version.get("name") or "", ",".join(wrong))
        yield from _parts(version, path, apart, kube, schema=f"{path}.schema")
        for at, field in enumerate(version.get("selectableFields") or ()):
            yield from _path(field.get("jsonPath") or "", f"{path}.selectableFields[{at}].jsonPath")
    shown = [_shown(version, common) for version in versions]
    if len({version.get("name") for version in versions}) != len(versions):
        yield invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    # The name of the first version is also kept in a field of its own, which no longer shows.
    if versions and (wrong := service_name_problems(versions[0].get("name") or "")):
        yield invalid("spec.version", versions[0].get("name") or "", ",".join(wrong))


class _ShownVersion(msgspec.Struct, rename="camel"):
    """A version as messages show it."""

    name: str
    served: bool
    storage: bool
    deprecated: bool
    deprecation_warning: str | None
    schema: Tree | None
    subresources: Tree | None
    additional_printer_columns: list[Tree] | None
    selectable_fields: list[Tree] | None


def _shown(version: Tree, common: _Common) -> _ShownVersion:
    return _ShownVersion(
        version.get("name") or "",
        bool(version.get("served")),
        bool(version.get("storage")),
        bool(version.get("deprecated")),
        version.get("deprecationWarning"),
        None if common.schema else version.get("schema"),
        None if common.subresources else version.get("subresources"),
        None if common.columns else version.get("additionalPrinterColumns"),
        version.get("selectableFields"),
    )


def _parts(version: Tree, path: str, judged: _Common, kube: str, *, schema: str) -> Errors:
    """The schema, subresources and columns of a version, as far as they are to be judged here."""
    tree = (version.get("schema") or {}).get("openAPIV3Schema")
    subresources = version.get("subresources") or {}
    if tree is not None and judged.schema:
        where = f"{schema}.openAPIV3Schema"
        found = schema_problems(tree, where, has_status=subresources.get("status") is not None)
        yield from found
        if not found:
            yield from rule_problems(tree, where, kube)
    scale = subresources.get("scale")
    if scale is not None and judged.subresources:
        yield from _scale(scale, f"{path}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or () if judged.columns else ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")


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
    # Nothing else is asked of a path: one that cannot be read finds nothing.
    if not text.startswith("."):
        yield invalid(path, text, "must be a simple json path starting with .")


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
    if strategy == "Webhook" and not (conversion.get("webhook") or {}).get("conversionReviewVersions"):
        yield required("spec.conversion.conversionReviewVersions")


def _stored(status: Tree, versions: list[Tree]) -> Errors:
    """The versions in which objects may be stored must stay as long as there are such."""
    path = "status.storedVersions"
    stored = status.get("storedVersions")
    if not stored:
        yield invalid(path, stored, "must have at least one stored version")
        return
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            yield invalid(path, stored, f"must have the storage version {version.get('name')}")
    named = {version.get("name") for version in versions}
    for index, version in enumerate(stored):
        if version not in named:
            yield invalid(
                f"{path}[{index}]", version,
                f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {version} and removes "
                f"{version} from status.storedVersions",
            )  # fmt: skip


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


# --- the rules of the kind -------------------------------------------------------------------------------------------


def _prepare_create(tree: Tree, write: Write) -> Tree:
    if ((tree.get("spec") or {}).get("conversion") or {}).get("strategy") == "Webhook":
        write.warn(_UNCALLED)
    fresh = with_stored_version({name: value for name, value in tree.items() if name != "status"})
    return fresh if next(problems(fresh, write.features.kube), None) is not None else accepted(fresh, write)


def _prepare_update(new: Tree, old: Tree, write: Write) -> Tree:
    if write.subresource == "status" or new["spec"] == old["spec"]:
        return new
    kept = with_stored_version(new)
    return kept if next(problems(kept, write.features.kube), None) is not None else accepted(kept, write)


def _validate_create(tree: Tree, write: Write) -> Iterable[FieldError]:
    return (*_name(tree), *problems(tree, write.features.kube))


def _validate_update(new: Tree, old: Tree, write: Write) -> Iterable[FieldError]:
    return change_problems(new, old, write.features.kube)


DEFINITION_RULES: Final = Rules(
    default=defaults_for("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    prepare_create=_prepare_create,
    validate_create=_validate_create,
    prepare_update=_prepare_update,
    validate_update=_validate_update,
    has_generation=True,
)
