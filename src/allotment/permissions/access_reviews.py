"""Permissions of a component as access reviews: one request per verb, resource and name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.model.trees import Tree
from allotment.permissions.roles import NAMESPACE
from allotment.permissions.rule import ComponentPermissions, PermissionRule


class AccessRequest(NamedTuple):
    """A request for ``verb`` on a resource (with its ``subresource``), or on a non-resource ``path``.

    ``name`` and ``namespace`` are empty if the request is for all objects or all namespaces.
    """

    verb: str
    group: str
    resource: str
    subresource: str
    name: str
    namespace: str
    path: str
    why: str

    def __str__(self) -> str:
        """The resource as in kubectl: ``resourceclaims.resource.k8s.io/status``."""
        if self.path:
            return self.path
        whole = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{whole}/{self.subresource}" if self.subresource else whole


def access_requests(component: ComponentPermissions, namespace: str = NAMESPACE) -> tuple[AccessRequest, ...]:
    """All requests of a component that runs in ``namespace``."""
    everywhere = [request for rule in component.cluster_wide for request in _requests(rule, "")]
    return (*everywhere, *(request for rule in component.in_namespace for request in _requests(rule, namespace)))


def review_attributes(request: AccessRequest) -> Tree:
    """The attributes in the spec of an access review for this request."""
    if request.path:
        return {"nonResourceAttributes": {"path": request.path, "verb": request.verb}}
    values = request._asdict()
    fields = ("verb", "group", "resource", "subresource", "name", "namespace")
    return {"resourceAttributes": {field: values[field] for field in fields if values[field]}}


def _requests(rule: PermissionRule, namespace: str) -> Iterator[AccessRequest]:
    for path in rule.paths:
        for verb in rule.verbs:
            yield AccessRequest(verb, "", "", "", "", "", path, rule.why)
    for group in rule.groups:
        for whole in rule.resources:
            resource, _, subresource = whole.partition("/")
            for name in rule.names or ("",):
                for verb in rule.verbs:
                    yield AccessRequest(verb, group, resource, subresource, name, namespace, "", rule.why)
