"""ResourceClaim and ResourceClaimTemplate, created and updated. The status of a claim: ``status``."""

from __future__ import annotations

from allotment.model.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate
from allotment.model.validation.configuration import claim_config
from allotment.model.validation.constraints import constraints
from allotment.model.validation.context import Context
from allotment.model.validation.errors import Errors, immutable
from allotment.model.validation.metadata import object_meta, object_meta_update, template_meta
from allotment.model.validation.requests import request_names, requests


def claim_spec(spec: ResourceClaimSpec, path: str, context: Context) -> Errors:
    """What a claim asks for, as new."""
    path = f"{path}.devices"
    known = request_names(spec.devices.requests)
    yield from requests(spec.devices.requests, f"{path}.requests", context)
    yield from constraints(spec.devices.constraints, f"{path}.constraints", known, context)
    yield from claim_config(spec.devices.config, f"{path}.config", known)


def claim(value: ResourceClaim, context: Context) -> Errors:
    """A new claim."""
    yield from object_meta(value.metadata, namespaced=True)
    yield from claim_spec(value.spec, "spec", context)


def claim_update(new: ResourceClaim, old: ResourceClaim, _: Context) -> Errors:
    """A changed claim: metadata only, and nothing of the unchanged spec is looked at again."""
    yield from object_meta(new.metadata, namespaced=True)
    yield from object_meta_update(new.metadata, old.metadata)
    if new.spec != old.spec:
        yield immutable("spec", new.spec)


def template(value: ResourceClaimTemplate, context: Context) -> Errors:
    """A new template."""
    yield from object_meta(value.metadata, namespaced=True)
    yield from template_meta(value.spec.metadata, "spec.metadata")
    yield from claim_spec(value.spec.spec, "spec.spec", context)


def template_update(new: ResourceClaimTemplate, old: ResourceClaimTemplate, context: Context) -> Errors:
    """A changed template: validated as if new, although its spec may not differ."""
    yield from template(new, context)
    yield from object_meta_update(new.metadata, old.metadata)
    if new.spec != old.spec:
        yield immutable("spec", new.spec)
