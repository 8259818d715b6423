"""Reference data, as ``-o json`` prints it: rules, hardware, instance types, vocabulary, permissions.

Each function returns new lists and dicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allotment.reference.check_rules import rule as rule
    from allotment.reference.check_rules import rules as rules
    from allotment.reference.cluster_checks import checks as checks
    from allotment.reference.exporter_metrics import metrics as metrics
    from allotment.reference.installation import labs as labs
    from allotment.reference.installation import versions as versions
    from allotment.reference.instance_type_data import instance_type as instance_type
    from allotment.reference.instance_type_data import instance_types as instance_types
    from allotment.reference.instance_type_objects import exported as exported
    from allotment.reference.instance_type_objects import instance_slices as instance_slices
    from allotment.reference.json_schema import schema as schema
    from allotment.reference.known_hardware import fleet as fleet
    from allotment.reference.known_hardware import hardware as hardware
    from allotment.reference.known_hardware import slices as slices
    from allotment.reference.packaged_examples import examples as examples
    from allotment.reference.required_permissions import components as components
    from allotment.reference.required_permissions import missing_permissions as missing_permissions
    from allotment.reference.required_permissions import permissions as permissions
    from allotment.reference.vocabularies import vocabulary as vocabulary

__all__ = [
    "checks",
    "components",
    "examples",
    "exported",
    "fleet",
    "hardware",
    "instance_slices",
    "instance_type",
    "instance_types",
    "labs",
    "metrics",
    "missing_permissions",
    "permissions",
    "rule",
    "rules",
    "schema",
    "slices",
    "versions",
    "vocabulary",
]

#: Imported at first access: a command that prints one kind of data does not read the others.
_MODULES = {
    "allotment.reference.check_rules": ("rule", "rules"),
    "allotment.reference.cluster_checks": ("checks",),
    "allotment.reference.exporter_metrics": ("metrics",),
    "allotment.reference.installation": ("labs", "versions"),
    "allotment.reference.instance_type_data": ("instance_type", "instance_types"),
    "allotment.reference.instance_type_objects": ("exported", "instance_slices"),
    "allotment.reference.json_schema": ("schema",),
    "allotment.reference.known_hardware": ("fleet", "hardware", "slices"),
    "allotment.reference.packaged_examples": ("examples",),
    "allotment.reference.required_permissions": ("components", "missing_permissions", "permissions"),
    "allotment.reference.vocabularies": ("vocabulary",),
}


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        module = next((module for module, names in _MODULES.items() if name in names), None)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
