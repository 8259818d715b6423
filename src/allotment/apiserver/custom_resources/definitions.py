"""CustomResourceDefinitions: status, validation of create and update, and conflicts of names.

In Kubernetes a controller accepts the names and establishes the kind shortly after the write. Here that is part of the
write, so that objects of the new kind can be created immediately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from allotment.apiserver.custom_resources.rule_checks import rule_problems
from allotment.apiserver.custom_resources.structural_schema import schema_problems
from allotment.apiserver.kinds.defaults import defaults_for
from allotment.apiserver.kinds.field_validation import service_name_problems
from allotment.apiserver.kinds.kind import KindRules, Write
from allotment.apiserver.kinds.webhook_clients import REVIEW_VERSIONS, client_problems, distinct_versions
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, FieldError, forbidden, immutable, invalid, not_supported, required
from allotment.model.validation.names import subdomain_problems

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
#: The finalizer of a definition whose objects are being deleted.
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_APPROVAL_ANNOTATION: Final = "api-approved.kubernetes.io"


# --- names -----------------------------------------------------------------------------------------------


def with_accepted_names(tree: Tree, write: Write) -> Tree:
    """A definition with the conditions NamesAccepted and Established in its status."""
    status = dict(tree.get("status") or {})
    conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
    names, conflicts = _free_names(tree, write)
    status["acceptedNames"] = names
    accepted = ("False", *conflicts[-1]) if conflicts else ("True", "NoConflicts", "no conflicts found")
    updated = [_condition(conditions, "NamesAccepted", *accepted, write.now)]
    if not conflicts or conditions.get("Established", {}).get("status") == "True":
        message = "the initial names have been accepted"
        updated.append(_condition(conditions, "Established", "True", "InitialNamesAccepted", message, write.now))
    else:
        updated.append(
            _condition(conditions, "Established", "False", "NotAccepted", "not all names are accepted", write.now)
        )
    others = [condition for name, condition in conditions.items() if name not in ("NamesAccepted", "Established")]
    status["conditions"] = [*updated, *others]
    return {**tree, "status": status}


def with_termination(tree: Tree, status: str, reason: str, message: str, now: str) -> Tree:
    """A definition with the condition Terminating, which is last."""
    before = (tree.get("status") or {}).get("conditions") or ()
    known = {condition["type"]: condition for condition in before}
    terminating = _condition(known, "Terminating", status, reason, message, now)
    conditions = [*(condition for condition in before if condition["type"] != "Terminating"), terminating]
    return {**tree, "status": {**(tree.get("status") or {}), "conditions": conditions}}


def with_stored_version(tree: Tree) -> Tree:
    """A definition with its storage version added to ``status.storedVersions``."""
    status = dict(tree.get("status") or {})
    stored = status.get("storedVersions") or []
    for version in (tree.get("spec") or {}).get("versions") or ():
        if version.get("storage") and version.get("name"):
            if version["name"] not in stored:
                status["storedVersions"] = [*stored, version["name"]]
            break
    return {**tree, "status": status}


def _condition(conditions: Tree, condition_type: str, status: str, reason: str, message: str, now: str) -> Tree:
    before = conditions.get(condition_type) or {}
    since = before["lastTransitionTime"] if before.get("status") == status else now
    return {"type": condition_type, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}


def _free_names(tree: Tree, write: Write) -> tuple[Tree, list[tuple[str, str]]]:
    """The names that no other definition of the group uses, and reason and message of each conflict."""
    requested: Tree = tree["spec"]["names"]
    resources, kinds = _used_names(tree, write)
    free: Tree = {"plural": "", "kind": ""}
    conflicts = []
    for field, reason, used_names in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        value = requested.get(field)
        clashes = [name for name in (value if isinstance(value, list) else [value]) if name in used_names]
        if clashes:
            conflicts.append((reason, ", ".join(f'"{name}" is already in use' for name in clashes)))
        elif value:
            free[field] = value
    if requested.get("categories"):
        free["categories"] = requested["categories"]
    return free, conflicts


def _used_names(tree: Tree, write: Write) -> tuple[set[str], set[str]]:
    """The resource names and the kind names that other definitions of the group use."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for entry in write.reader.list(DEFINITIONS):
        if entry.name != tree["metadata"].get("name") and entry.tree["spec"]["group"] == tree["spec"]["group"]:
            accepted = (entry.tree.get("status") or {}).get("acceptedNames") or {}
            resources.update(
                (accepted.get("plural", ""), accepted.get("singular", ""), *(accepted.get("shortNames") or ()))
            )
            kinds.update((accepted.get("kind", ""), accepted.get("listKind", "")))
    return resources - {""}, kinds - {""}


# --- validation ------------------------------------------------------------------------------------------------------


def definition_problems(tree: Tree, kube: str) -> Iterator[FieldError]:
    """Yield every reason to reject a definition."""
    spec = tree.get("spec") or {}
    names = spec.get("names") or {}
    yield from _group(spec)
    scope = spec.get("scope") or ""
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", scope, ("Cluster", "Namespaced"))
    versions = spec.get("versions") or []
    common = _SharedParts.from_versions(versions)
    yield from _versions(versions, common, kube)
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    yield from _names(names)
    if versions:
        yield from _version_parts(versions[0], "spec", common, kube, schema="spec.validation")
    yield from _conversion(spec.get("conversion") or {})
    yield from _stored_versions(tree.get("status") or {}, versions)
    yield from _approval(tree)
    if spec.get("preserveUnknownFields"):
        yield invalid(
            "spec.preserveUnknownFields", True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        )  # fmt: skip


def _definition_name(tree: Tree) -> Errors:
    """A definition must be named ``plural.group``."""
    spec = tree.get("spec") or {}
    expected = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
    name = (tree.get("metadata") or {}).get("name") or ""
    if name and name != expected:
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


class _SharedParts(NamedTuple):
    """Which parts are equal in all versions: Kubernetes validates these once, as parts of the spec itself."""

    schema: bool
    subresources: bool
    columns: bool

    @staticmethod
    def from_versions(versions: list[Tree]) -> _SharedParts:
        def same(part: str) -> bool:
            return all(version.get(part) == versions[0].get(part) for version in versions)

        return _SharedParts(same("schema"), same("subresources"), same("additionalPrinterColumns"))


def _group(spec: Tree) -> Errors:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif problems := subdomain_problems(group):
        yield invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _versions(versions: list[Tree], common: _SharedParts, kube: str) -> Errors:
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    distinct = _SharedParts(*(not part for part in common))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if problems := service_name_problems(version.get("name") or ""):
            yield invalid(f"{path}.name", version.get("name") or "", ",".join(problems))
        yield from _version_parts(version, path, distinct, kube, schema=f"{path}.schema")
        for field_index, field in enumerate(version.get("selectableFields") or ()):
            yield from _json_path(field.get("jsonPath") or "", f"{path}.selectableFields[{field_index}].jsonPath")
    printed = [_printed_version(version, common) for version in versions]
    if len({version.get("name") for version in versions}) != len(versions):
        yield invalid("spec.versions", printed, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", printed, "must have exactly one version marked as storage version")
    # Internally the name of the first version is also in the field spec.version, which v1 does not have.
    if versions and (problems := service_name_problems(versions[0].get("name") or "")):
        yield invalid("spec.version", versions[0].get("name") or "", ",".join(problems))


class _PrintedVersion(msgspec.Struct, rename="camel"):
    """A version as printed in messages."""

    name: str
    served: bool
    storage: bool
    deprecated: bool
    deprecation_warning: str | None
    schema: Tree | None
    subresources: Tree | None
    additional_printer_columns: list[Tree] | None
    selectable_fields: list[Tree] | None


def _printed_version(version: Tree, common: _SharedParts) -> _PrintedVersion:
    return _PrintedVersion(
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


def _version_parts(version: Tree, path: str, checked: _SharedParts, kube: str, *, schema: str) -> Errors:
    """Validate the schema, subresources and columns of a version, as far as ``checked`` selects them."""
    tree = (version.get("schema") or {}).get("openAPIV3Schema")
    subresources = version.get("subresources") or {}
    if tree is not None and checked.schema:
        schema_path = f"{schema}.openAPIV3Schema"
        schema_errors = schema_problems(tree, schema_path, has_status=subresources.get("status") is not None)
        yield from schema_errors
        if not schema_errors:
            yield from rule_problems(tree, schema_path, kube)
    scale = subresources.get("scale")
    if scale is not None and checked.subresources:
        yield from _scale(scale, f"{path}.subresources.scale")
    for index, column in enumerate(version.get("additionalPrinterColumns") or () if checked.columns else ()):
        yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")


def _scale(scale: Tree, path: str) -> Errors:
    for field, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        text = scale.get(field) or ""
        if not text:
            yield required(f"{path}.{field}")
        elif not text.startswith(root):
            yield invalid(f"{path}.{field}", text, f"should be a json path under {root[:-1]}")
        else:
            yield from _json_path(text, f"{path}.{field}")
    text = scale.get("labelSelectorPath") or ""
    if text and not text.startswith((".spec.", ".status.")):
        yield invalid(f"{path}.labelSelectorPath", text, "should be a json path under either .spec or .status")


def _column(column: Tree, path: str) -> Errors:
    column_type, format_ = column.get("type") or "", column.get("format") or ""
    if not column.get("name"):
        yield required(f"{path}.name")
    if not column_type:
        yield required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif column_type not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", column_type, f"must be one of {','.join(_COLUMN_TYPES)}")
    if format_ and format_ not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", format_, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not column.get("jsonPath"):
        yield required(f"{path}.JSONPath")
    else:
        yield from _json_path(column["jsonPath"], f"{path}.JSONPath")


def _json_path(text: str, path: str) -> Errors:
    # A path that cannot be parsed is accepted; it selects nothing.
    if not text.startswith("."):
        yield invalid(path, text, "must be a simple json path starting with .")


def _names(names: Tree) -> Errors:
    path = "spec.names"
    for field in ("plural", "singular"):
        text = names.get(field) or ""
        if text and (problems := service_name_problems(text)):
            yield invalid(f"{path}.{field}", text, ",".join(problems))
    for field in ("kind", "listKind"):
        text = names.get(field) or ""
        if text and (problems := service_name_problems(text.lower())):
            detail = f"may have mixed case, but should otherwise match: {','.join(problems)}"
            yield invalid(f"{path}.{field}", text, detail)
    for field in ("shortNames", "categories"):
        for index, text in enumerate(names.get(field) or ()):
            if problems := service_name_problems(text):
                yield invalid(f"{path}.{field}[{index}]", text, ",".join(problems))
        if field == "shortNames" and names.get("kind") and names.get("kind") == names.get("listKind"):
            yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")


def _conversion(conversion: Tree) -> Errors:
    strategy = conversion.get("strategy") or ""
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    path, versions_path = "spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions"
    if strategy != "Webhook":
        reason = "should not be set when strategy is not set to Webhook"
        if config is not None:
            yield forbidden(path, reason)
        if versions:
            yield forbidden(versions_path, reason)
        return
    if config is None:
        yield required(path, "required when strategy is set to Webhook")
    else:
        yield from client_problems(config, path)
    if not versions:
        yield required(versions_path)
        return
    yield from distinct_versions(versions, versions_path)
    if not set(versions) & set(REVIEW_VERSIONS):
        yield invalid(versions_path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")


def _stored_versions(status: Tree, versions: list[Tree]) -> Errors:
    """Stored versions must remain in the spec until they are removed from the status."""
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
    path = f"metadata.annotations[{_APPROVAL_ANNOTATION}]"
    approval = ((tree.get("metadata") or {}).get("annotations") or {}).get(_APPROVAL_ANNOTATION) or ""
    if not approval:
        yield required(
            path,
            f'protected groups must have approval annotation "{_APPROVAL_ANNOTATION}", '
            "see https://github.com/kubernetes/enhancements/pull/1111",
        )
    elif not approval.startswith(("unapproved", "https://", "http://")):
        yield invalid(
            path, approval, 'protected groups must have approval annotation "api-approved.kubernetes.io" with either a '
            "URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        )  # fmt: skip


def update_problems(new: Tree, old: Tree, kube: str) -> Iterator[FieldError]:
    """Yield every reason to reject an update of a definition."""
    spec, old_spec = new["spec"], old["spec"]
    if spec == old_spec:
        return
    yield from definition_problems(new, kube)
    established = any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in (old.get("status") or {}).get("conditions") or ()
    )
    if established and spec.get("scope") != old_spec.get("scope"):
        yield immutable("spec.scope", spec.get("scope") or "")
    if established and spec["names"].get("kind") != old_spec["names"].get("kind"):
        yield immutable("spec.names.kind", spec["names"].get("kind") or "")
    if spec.get("group") != old_spec.get("group"):
        yield immutable("spec.group", spec.get("group") or "")
    if spec["names"].get("plural") != old_spec["names"].get("plural"):
        yield immutable("spec.names.plural", spec["names"].get("plural") or "")


# --- write rules -----------------------------------------------------------------------------------------------------


def _prepare_create(tree: Tree, write: Write) -> Tree:
    created = with_stored_version({name: value for name, value in tree.items() if name != "status"})
    return _accept_if_valid(created, write)


def _prepare_update(new: Tree, old: Tree, write: Write) -> Tree:
    if write.subresource == "status" or new["spec"] == old["spec"]:
        return new
    return _accept_if_valid(with_stored_version(new), write)


def _accept_if_valid(tree: Tree, write: Write) -> Tree:
    valid = next(definition_problems(tree, write.features.kube), None) is None
    return with_accepted_names(tree, write) if valid else tree


def _validate_create(tree: Tree, write: Write) -> Iterable[FieldError]:
    return (*_definition_name(tree), *definition_problems(tree, write.features.kube))


DEFINITION_RULES: Final = KindRules(
    default=defaults_for("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    prepare_create=_prepare_create,
    validate_create=_validate_create,
    prepare_update=_prepare_update,
    validate_update=lambda new, old, write: update_problems(new, old, write.features.kube),
    has_generation=True,
)
