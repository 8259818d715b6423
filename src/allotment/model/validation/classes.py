"""DeviceClass: create and update."""

from __future__ import annotations

from allotment.model.resource import DeviceClass
from allotment.model.validation import names
from allotment.model.validation.configuration import class_config
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import Errors, invalid
from allotment.model.validation.metadata import object_meta, object_meta_update
from allotment.model.validation.selectors import selectors


def device_class(value: DeviceClass, context: ValidationContext) -> Errors:
    """Validate a new class."""
    yield from object_meta(value.metadata, namespaced=False, prefix=False)
    yield from _spec(value, None, context)


def device_class_update(new: DeviceClass, old: DeviceClass, context: ValidationContext) -> Errors:
    """Validate a changed class; lists that have not changed are checked by the less strict rules for stored objects."""
    yield from object_meta(new.metadata, namespaced=False, prefix=False)
    yield from object_meta_update(new.metadata, old.metadata)
    yield from _spec(new, old, context)


def _spec(new: DeviceClass, old: DeviceClass | None, context: ValidationContext) -> Errors:
    spec = new.spec
    stored = old is not None and spec.selectors == old.spec.selectors
    yield from selectors(spec.selectors, "spec.selectors", context, stored=stored)
    yield from class_config(spec.config, "spec.config", stored=old is not None and spec.config == old.spec.config)
    name = spec.extended_resource_name
    if name is not None and not names.is_extended_resource(name):
        yield invalid("spec.extendedResourceName", name, "must be a valid extended resource name")
