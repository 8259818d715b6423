"""A part's permissions as questions to a cluster, each as small as roles get: one verb, one resource, one name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.model.trees import Tree
from allotment.tools.permissions.roles import NAMESPACE
from allotment.tools.permissions.rule import ComponentPermissions, PermissionRule


class AccessRequest(NamedTuple):
    """May somebody do ``verb`` to a resource (with its ``subresource``), or to a ``path`` that is none?

    ``name``: to the object of that name, empty where it is about all. ``namespace``: empty where it is about all.
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
        """As Kubernetes writes resources: ``resourceclaims.resource.k8s.io/status``."""
        if self.path:
            return self.path
        whole = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{whole}/{self.subresource}" if self.subresource else whole


def access_requests(part: ComponentPermissions, namespace: str = NAMESPACE) -> tuple[AccessRequest, ...]:
    """All that a part needs; ``namespace`` is its home."""
    everywhere = [ask for rule in part.cluster_wide for ask in _asks(rule, "")]
    return (*everywhere, *(ask for rule in part.in_namespace for ask in _asks(rule, namespace)))


def review_attributes(ask: AccessRequest) -> Tree:
    """The part of an access review's spec that says what is asked."""
    if ask.path:
        return {"nonResourceAttributes": {"path": ask.path, "verb": ask.verb}}
    said = ask._asdict()
    fields = ("verb", "group", "resource", "subresource", "name", "namespace")
    return {"resourceAttributes": {field: said[field] for field in fields if said[field]}}


def _asks(rule: PermissionRule, namespace: str) -> Iterator[AccessRequest]:
    for path in rule.paths:
        for verb in rule.verbs:
            yield AccessRequest(verb, "", "", "", "", "", path, rule.why)
    for group in rule.groups:
        for whole in rule.resources:
            resource, _, subresource = whole.partition("/")
            for name in rule.names or ("",):
                for verb in rule.verbs:
                    yield AccessRequest(verb, group, resource, subresource, name, namespace, "", rule.why)
