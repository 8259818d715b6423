"""Builds the served kind of a CustomResourceDefinition: names, versions, shapes, table and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from allotment.apiserver.custom_resources.conversion import WebhookConversion, rename
from allotment.apiserver.custom_resources.defaulting import apply_defaults, has_defaults
from allotment.apiserver.custom_resources.list_types import ABSENT, list_problems
from allotment.apiserver.custom_resources.printer_columns import table_converter
from allotment.apiserver.custom_resources.scale import scale_paths, scale_problems
from allotment.apiserver.custom_resources.schema_validation import value_problems
from allotment.apiserver.custom_resources.shapes import object_shape
from allotment.apiserver.custom_resources.validation_rules import RuleValidator
from allotment.apiserver.kinds.kind import Convert, KindRules, ServedKind, Write
from allotment.apiserver.kinds.schema_extensions import EMBEDDED_RESOURCE
from allotment.model import DEFAULT_RELEASE
from allotment.model.jsonpath import EvaluationError, Template, TemplateError, parse, text_of
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, ErrorType, FieldError, invalid, required


def embedded_problems(value: Any, schema: Tree, path: str = "") -> Errors:
    """Yield an error for each embedded object without apiVersion or kind."""
    if type(value) is dict:
        if schema.get(EMBEDDED_RESOURCE):
            yield from _identity(value, path)
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            if name in properties:
                yield from embedded_problems(item, properties[name], f"{path}.{name}" if path else name)
            elif isinstance(additional, dict):
                yield from embedded_problems(item, additional, f"{path}[{name}]")
    elif type(value) is list and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from embedded_problems(item, schema["items"], f"{path}[{index}]")


def _identity(tree: Tree, path: str) -> Errors:
    for field in ("apiVersion", "kind"):
        if not tree.get(field):
            yield required(f"{path}.{field}")


#: In the order of Kubernetes' discovery for custom resources.
_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
#: After errors of these types, CEL rules might get values of unexpected types.
_BLOCKING_TYPES: Final = frozenset(
    {ErrorType.NOT_SUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE_INVALID}
)
_UNCHECKED_RULES: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def kind_from_definition(definition: Tree, kube: str = DEFAULT_RELEASE) -> ServedKind | None:
    """The kind that a definition adds; None if it is not established or not served."""
    spec, status = definition["spec"], definition.get("status") or {}
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    if conditions.get("Established") != "True":
        return None
    names = status.get("acceptedNames") or spec["names"]
    served = sorted(
        (version for version in spec["versions"] if version.get("served")),
        key=lambda version: not version.get("storage"),
    )
    if not served:
        return None
    versions = {version["name"]: _Version(version, kube) for version in served}
    # The storage version need not be served.
    stored = next(version for version in spec["versions"] if version.get("storage"))
    all_versions = {version["name"]: versions.get(version["name"]) or _Version(version, kube) for version in (stored,)}
    all_versions |= versions
    schemas = {name: version.schema for name, version in all_versions.items()}
    convert = _conversion(definition, schemas) if len(spec["versions"]) > 1 else None
    first = served[0]
    subresources = first.get("subresources") or {}
    return ServedKind(
        group=spec["group"],
        versions=tuple(versions),
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("status", "scale") if subresources.get(name) is not None),
        verbs=_VERBS,
        rules=_rules(all_versions, convert),
        table=table_converter(first.get("additionalPrinterColumns") or []),
        version_fields={version["name"]: _selectable_fields(version) for version in served},
        shapes={name: object_shape(schema) for name, schema in schemas.items()},
        schemas={name: version.schema for name, version in versions.items()},
        unconditional_update=False,
        deprecated={version["name"]: _deprecation(version, spec) for version in served if version.get("deprecated")},
        scale=scale_paths(subresources.get("scale")),
        complete=_completion(schemas),
        convert=convert,
        hub=stored["name"] if stored is not first else "",
        is_terminating="deletionTimestamp" in (definition.get("metadata") or {}),
    )


def _completion(schemas: Mapping[str, Tree]) -> Callable[[Tree], Tree] | None:
    """Applies the defaults of their version to stored objects, as kube-apiserver does when it decodes them."""
    defaulted = {name: schema for name, schema in schemas.items() if has_defaults(schema)}
    if not defaulted:
        return None

    def complete(tree: Tree) -> Tree:
        schema = defaulted.get(_version_name(tree))
        completed: Tree = tree if schema is None else apply_defaults(tree, schema)
        return completed

    return complete


def _version_name(tree: Tree) -> str:
    return str(tree.get("apiVersion") or "").rpartition("/")[2]


def _conversion(definition: Tree, schemas: Mapping[str, Tree]) -> Convert:
    """The conversion between the versions of a definition."""
    spec = definition["spec"]
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        return WebhookConversion(definition, schemas)

    def convert(tree: Tree, version: str, *, is_stored: bool) -> Tree:
        return rename(tree, version, spec["group"], schemas)

    return convert


class _Version:
    """A version's schema, and its CEL rules, compiled on first use."""

    def __init__(self, version: Tree, kube: str) -> None:
        self.schema: Tree = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        self._scale = (version.get("subresources") or {}).get("scale")
        self._kube = kube
        self._validator: RuleValidator | None = None

    @property
    def validator(self) -> RuleValidator:
        if self._validator is None:
            self._validator = RuleValidator(self.schema, self._kube, root=True)
        return self._validator

    def problems(self, new: Tree, old: Any = ABSENT, *, status: bool = False) -> list[FieldError]:
        if status:
            errors = self._status_problems(new, old)
        else:
            errors = value_problems(_without_metadata(new), self.schema, _without_metadata(old))
        if self._scale is not None:
            errors += scale_problems(new, self._scale)
        errors += embedded_problems(new, self.schema)
        errors += list_problems(new, self.schema)
        if not self.validator.has_rules:
            return errors
        if any(problem.type in _BLOCKING_TYPES for problem in errors):
            return [*errors, invalid("<nil>", None, _UNCHECKED_RULES)]
        return errors + self.validator.problems(new, old)

    def _status_problems(self, new: Tree, old: Tree) -> list[FieldError]:
        """Validate a write to the status subresource, which checks ``status`` only, as a value of its own."""
        schema = (self.schema.get("properties") or {}).get("status")
        if schema is None or "status" not in new:
            return []
        problems = value_problems(new["status"], schema, old.get("status", ABSENT))
        return [problem._replace(path=f"status.{problem.path}".removesuffix(".")) for problem in problems]


def _without_metadata(tree: Any) -> Any:
    """The object with empty metadata, which the server validates itself."""
    return tree if tree is ABSENT else {**tree, "metadata": {}}


def _deprecation(version: Tree, spec: Tree) -> str:
    text = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    return str(version.get("deprecationWarning") or text)


def _rules(versions: dict[str, _Version], convert: Convert | None) -> KindRules:
    def version_of(tree: Tree) -> _Version:
        return versions.get(_version_name(tree)) or next(iter(versions.values()))

    def default(tree: Tree, stored: Tree | None) -> Tree:
        defaulted: Tree = apply_defaults(tree, version_of(tree).schema)
        return defaulted

    def version_written(write: Write) -> _Version:
        return versions.get(write.version) or next(iter(versions.values()))

    def as_written(tree: Tree, write: Write, *, is_stored: bool = False) -> Tree:
        return tree if convert is None else convert(tree, write.version, is_stored=is_stored)

    def create(tree: Tree, write: Write) -> Iterable[FieldError]:
        return version_written(write).problems(as_written(tree, write))

    def update(new: Tree, old: Tree, write: Write) -> Iterable[FieldError]:
        before = as_written(old, write, is_stored=True)
        return version_written(write).problems(as_written(new, write), before, status=write.subresource == "status")

    return KindRules(default=default, validate_create=create, validate_update=update, has_generation=True)


def _selectable_fields(version: Tree) -> dict[str, Callable[[Tree], str]]:
    """Getters of the fields available to field selectors (KEP-4358)."""
    getters: dict[str, Callable[[Tree], str]] = {}
    for field in version.get("selectableFields") or ():
        path = field["jsonPath"]
        try:
            template = parse(f"{{{path}}}")
        except TemplateError:
            continue

        def getter(tree: Tree, template: Template = template) -> str:
            try:
                values = template.first(tree)
            except EvaluationError:
                return ""
            return text_of(values[0]) if values and values[0] is not None else ""

        getters[path.removeprefix(".")] = getter
    return getters
