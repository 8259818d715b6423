"""The errors of the API server for the creation of an object of any kind.

Of pods, and of the pod templates of workloads, only claims and the containers' resources are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from allotment.model.core import Namespace, Pod
from allotment.model.decoding import Manifest
from allotment.model.meta import Object
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.validation.admission import VALIDATORS, create
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import FieldError, required
from allotment.model.validation.pods import pod_claims, pod_resources, resource_claims
from allotment.model.workloads import PodGroup, template_of

#: A fixed time of creation; no error depends on it.
_NOW: Final = "2000-01-01T00:00:00Z"


def creation_errors(
    manifest: Manifest, context: ValidationContext, namespaces: Mapping[str, Namespace]
) -> list[FieldError]:
    """The errors of an object's creation, with paths of the v1 shape. ``namespaces``: the existing namespaces."""
    value = manifest.value
    errors: Iterable[FieldError] = ()
    template = template_of(value)
    if isinstance(value, Pod):
        errors = (*pod_claims(value), *pod_resources(value))
    elif isinstance(value, PodGroup):
        errors = resource_claims(value.spec.resource_claims, value.metadata)
    elif template is not None:
        path, spec = template
        pod = Pod(metadata=spec.metadata, spec=spec.spec)
        errors = (error._replace(path=f"{path}.{error.path}") for error in (*pod_claims(pod), *pod_resources(pod)))
    elif type(value) in VALIDATORS:
        namespace = namespaces.get(manifest.key.namespace)
        version = manifest.api_version.rpartition("/")[2]
        labels = namespace.metadata.labels if namespace is not None else {}
        paths = _path_version(value, version)
        errors = create(value, context, version=version, now=_NOW, namespace_labels=labels, path_version=paths).errors
    if type(value) not in VALIDATORS and isinstance(value, Object) and (template or isinstance(value, Pod | PodGroup)):
        errors = (*_name_errors(value), *errors)
    return list(errors)


def _path_version(value: object, version: str) -> str:
    """The version of a kind whose paths are those of the v1 shape."""
    return "v1" if isinstance(value, ResourceClaim | ResourceClaimTemplate | ResourceSlice) else version


def _name_errors(value: Object) -> Iterable[FieldError]:
    if not value.metadata.name and not value.metadata.generate_name:
        yield required("metadata.name", "name or generateName is required")
