"""Values of fields that editors suggest, from Kubernetes and from known drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from allotment.model.trees import Tree
from allotment.tools.schema.parameters import drivers_with_parameters
from allotment.vocabulary import drivers, installed_classes, vocabulary
from allotment.vocabulary.lookup import cel_example

_LABEL: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_QUALIFIED: Final = r"^[^/]+/[A-Za-z_][A-Za-z0-9_]*$"


def _known_or(names: Iterable[str], pattern: str) -> Tree:
    """Known names, or any other name that matches the pattern."""
    return {"anyOf": [{"enum": sorted(set(names))}, {"type": "string", "pattern": pattern}]}


@cache
def _terms() -> tuple[tuple[str, str], ...]:
    """Attributes and capacities of every driver in its newest release, each with an example condition."""

    def found() -> Iterator[tuple[str, str]]:
        for driver in drivers():
            words = vocabulary(driver)
            assert words is not None
            for term in words.terms:
                if not term.name[-1].isdigit():
                    yield term.name, cel_example(term, words)

    return tuple(found())


def _attributes() -> Tree:
    names = (term.name for driver in drivers() if (words := vocabulary(driver)) for term in words.attributes)
    return _known_or(names, _QUALIFIED)


def _classes() -> Tree:
    return _known_or(installed_classes(), _SUBDOMAIN)


def _expression() -> Tree:
    """A CEL expression with conditions as snippets for editors that support them."""
    snippets = [
        {"label": name, "description": condition, "body": condition.replace("$", r"\$")} for name, condition in _terms()
    ]
    return {"type": "string", "minLength": 1, "maxLength": 10 * 1024, "defaultSnippets": snippets}


def _amounts() -> Tree:
    quantity = {"type": ["string", "number"]}
    known = {
        name: quantity
        for driver in drivers()
        if (words := vocabulary(driver))
        for term in words.capacities
        if term.consumable
        for name in (term.name.rpartition("/")[2],)
    }
    return {"type": "object", "properties": dict(sorted(known.items())), "additionalProperties": quantity}


def _extended() -> Tree:
    return _known_or(
        (term.extended_resource for _, term in installed_classes().values() if term.extended_resource), _QUALIFIED_NAME
    )


_QUALIFIED_NAME: Final = r"^[^/]+/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_MODE: Final = {"enum": ["ExactCount", "All"], "default": "ExactCount"}
_COUNT: Final = {"type": "integer", "minimum": 1, "default": 1}

#: Schemas by type and field.
FIELDS: Final[Mapping[str, Callable[[], Tree]]] = {
    "DeviceRequest.name": lambda: {"type": "string", "pattern": _LABEL, "maxLength": 63},
    "DeviceSubRequest.name": lambda: {"type": "string", "pattern": _LABEL, "maxLength": 63},
    "ExactDeviceRequest.deviceClassName": _classes,
    "DeviceSubRequest.deviceClassName": _classes,
    "ExactDeviceRequest.allocationMode": lambda: dict(_MODE),
    "DeviceSubRequest.allocationMode": lambda: dict(_MODE),
    "ExactDeviceRequest.count": lambda: dict(_COUNT),
    "DeviceSubRequest.count": lambda: dict(_COUNT),
    "CELDeviceSelector.expression": _expression,
    "CapacityRequirements.requests": _amounts,
    "DeviceConstraint.matchAttribute": _attributes,
    "DeviceConstraint.distinctAttribute": _attributes,
    "DeviceToleration.operator": lambda: {"enum": ["Exists", "Equal"], "default": "Equal"},
    "DeviceToleration.effect": lambda: {"enum": ["NoSchedule", "NoExecute"]},
    "OpaqueDeviceConfiguration.driver": lambda: _known_or(drivers_with_parameters(), _SUBDOMAIN),
    "OpaqueDeviceConfiguration.parameters": lambda: {"type": "object"},
    "DeviceClassSpec.extendedResourceName": _extended,
}


def _one_of(*fields: str) -> Callable[[], Tree]:
    return lambda: {"oneOf": [{"required": [field]} for field in fields]}


def _by_driver() -> Tree:
    """Rules for the parameters of known drivers."""
    return {
        "allOf": [
            {
                "if": {"properties": {"driver": {"const": driver}}, "required": ["driver"]},
                "then": {"properties": {"parameters": {"$ref": f"#/definitions/parameters of {driver}"}}},
            }
            for driver in drivers_with_parameters()
        ]
    }


#: Additional schemas of whole types.
STRUCTS: Final[Mapping[str, Callable[[], Tree]]] = {
    "DeviceRequest": _one_of("exactly", "firstAvailable"),
    "DeviceConstraint": _one_of("matchAttribute", "distinctAttribute"),
    "PodResourceClaim": _one_of("resourceClaimName", "resourceClaimTemplateName"),
    "OpaqueDeviceConfiguration": _by_driver,
}
