"""S112: attributes without a type, and capacities and counters without ``value``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from allotment.model.editing.edits import SetValue
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.semver import Semver, SemverError
from allotment.model.written_amounts import intended_amount, is_quantity
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.names.known_names import vocabulary_of
from allotment.tools.check.objects.decoding_errors import decoding_errors_for
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.views import at, mapping, text
from allotment.vocabulary import drivers

_VERSION: Final = re.compile(r"v?\d+\.\d+\.\d+([-+].*)?")


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Bare values in slices and in fragments of slices."""
    for error in decoding_errors_for(bundle, "untyped-value"):
        expected = error.expected_shape
        driver = text(mapping(error.document.tree.get("spec")).get("driver"))
        is_attribute = expected is not None and expected.bare_name == "DeviceAttribute"
        yield _report(bundle, error.document, error.misfit.path, is_attribute, driver, "error")
    for document in bundle.documents:
        if document.kind or document.api_version:
            continue
        for field in ("attributes", "capacity"):
            for name, value in mapping(document.tree.get(field)).items():
                if isinstance(value, str | int | float):
                    yield _report(bundle, document, (field, name), field == "attributes", "", "warning")


def _report(bundle: Bundle, document: Document, path: Path, is_attribute: bool, driver: str, level: Level) -> RuleMatch:
    name, value = str(path[-1]), at(document.tree, path)
    if not is_attribute:
        intended = "" if isinstance(value, bool) else intended_amount(str(value))
        amount = value if is_quantity(str(value)) else intended or value
        message = f"{name} is a bare quantity, expected {{value: {amount}}}"
        fix = None
        if intended:
            text = "write it under value" if amount == value else f"write value: {amount}"
            fix = Fix(text, ((document, SetValue(path, {"value": amount})),), safe=True)
        return RuleMatch(document, path, message, fix=fix, level=level)
    kind, quantity, safe = _to_typed(value, _kind(bundle, driver, name))
    value_text = str(quantity).lower() if isinstance(quantity, bool) else quantity
    return RuleMatch(
        document,
        path,
        f"{name} has no type, expected {{string: …}}, {{version: …}}, {{int: …}} or {{bool: …}}",
        fix=Fix(f"write {kind}: {value_text}", ((document, SetValue(path, {kind: quantity})),), safe),
        level=level,
    )


def _kind(bundle: Bundle, driver: str, name: str) -> str:
    """The type that the driver publishes an attribute with; without a driver, the type in all drivers. Empty if
    unknown.
    """
    kinds: set[str] = set()
    for candidate in (driver,) if driver else drivers():
        vocab = vocabulary_of(bundle, candidate)
        domain, _, bare = name.rpartition("/")
        term = vocab.attribute(domain or candidate, bare) if vocab else None
        if term is not None:
            kinds.add(term.kind)
    return kinds.pop() if len(kinds) == 1 else ""


def _to_typed(value: Any, known_type: str) -> tuple[str, Any, bool]:
    """The type of a bare value, the typed value, and whether it is certain."""
    if isinstance(value, bool):
        return "bool", value, True
    if known_type == "version" or (isinstance(value, str) and not known_type and _VERSION.fullmatch(value)):
        try:
            return "version", str(Semver.parse(str(value), normalize=True)), True
        except SemverError:
            pass
    if isinstance(value, int) and known_type != "string":
        return "int", value, True
    # The YAML parser does not preserve how a floating-point number is written.
    return "string", str(value), isinstance(value, str) or (isinstance(value, int) and known_type == "string")


_UNTYPED = """\
- name: gpu-0
  attributes:
    architecture: Ampere
    cudaComputeCapability: 8.0.0
  capacity:
    memory: 40Gi
"""
_TYPED = """\
- name: gpu-0
  attributes:
    architecture:
      string: Ampere
    cudaComputeCapability:
      version: "8.0.0"
  capacity:
    memory:
      value: 40Gi
"""

RULE = Rule(
    code="S112",
    name="untyped-value",
    family="shape",
    level="error",
    summary="an attribute has no type, or a capacity has no value",
    why=(
        "Attributes in a ResourceSlice are typed: each has exactly one of the fields string, version, int and bool, "
        "so that CEL knows its type (KEP-4381). Capacities and counters have their quantity in the field value; a "
        "capacity can also have a request policy (KEP-5075). Hardware descriptions often omit the type; the API "
        "server cannot decode a bare value into the typed struct."
    ),
    bad=examples.resource_slice(_UNTYPED, node="worker-2"),
    good=examples.resource_slice(_TYPED, node="worker-2"),
    find=_find,
    fixable="safe or unsafe",
    see="https://kep.k8s.io/4381",
)
