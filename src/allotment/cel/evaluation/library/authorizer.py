"""``authorizer``: the permissions of a user in admission expressions.

``authorizer.group("apps").resource("deployments").namespace("shop").check("create").allowed()`` is decided by the
authorizer of the API server, which is passed in as a function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, NamedTuple

from allotment.cel.evaluation.values import CelError, Value
from allotment.model.validation.names import label_problems, subdomain_problems


class AccessRequest(NamedTuple):
    """An access to check: ``verb`` on a path, or on a resource. ``account``: the namespace and name of a service
    account that replaces the user of the request."""

    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    account: tuple[str, str] | None = None


#: Returns None if the access is allowed, else the reason.
Decide = Callable[[AccessRequest], str | None]


class _AccessValue:
    """An access request that an expression builds step by step."""

    __slots__ = ("decide", "request")

    def __init__(self, decide: Decide, request: AccessRequest) -> None:
        self.decide = decide
        self.request = request


class Authorizer(_AccessValue):
    """The value of ``authorizer``."""

    __slots__ = ()
    cel_type: ClassVar = "kubernetes.authorization.Authorizer"
    go_type: ClassVar = "library.authorizerVal"


class PathCheck(_AccessValue):
    """The value of ``authorizer.path(path)``."""

    __slots__ = ()
    cel_type: ClassVar = "kubernetes.authorization.PathCheck"
    go_type: ClassVar = "library.pathCheckVal"


class GroupCheck(_AccessValue):
    """The value of ``authorizer.group(group)``."""

    __slots__ = ()
    cel_type: ClassVar = "kubernetes.authorization.GroupCheck"
    go_type: ClassVar = "library.groupCheckVal"


class ResourceCheck(_AccessValue):
    """The value of ``authorizer.group(group).resource(resource)``, and of ``authorizer.requestResource``."""

    __slots__ = ()
    cel_type: ClassVar = "kubernetes.authorization.ResourceCheck"
    go_type: ClassVar = "library.resourceCheckVal"


class Decision:
    """The result of a check; ``denial`` is the reason, None if the access is allowed."""

    __slots__ = ("denial",)
    cel_type: ClassVar = "kubernetes.authorization.Decision"
    go_type: ClassVar = "library.decisionVal"

    def __init__(self, denial: str | None) -> None:
        self.denial = denial


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(authorizer.decide, authorizer.request._replace(path=path))


def _group(authorizer: Authorizer, group: str) -> GroupCheck:
    return GroupCheck(authorizer.decide, authorizer.request._replace(group=group))


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if any(subdomain_problems(name)):
        raise CelError("Invalid service account name")
    if any(label_problems(namespace)):
        raise CelError("Invalid service account namespace")
    return Authorizer(authorizer.decide, authorizer.request._replace(account=(namespace, name)))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(check.decide, check.request._replace(resource=resource))


def _subresource(check: ResourceCheck, subresource: str) -> ResourceCheck:
    return ResourceCheck(check.decide, check.request._replace(subresource=subresource))


def _namespace(check: ResourceCheck, namespace: str) -> ResourceCheck:
    return ResourceCheck(check.decide, check.request._replace(namespace=namespace))


def _name(check: ResourceCheck, name: str) -> ResourceCheck:
    return ResourceCheck(check.decide, check.request._replace(name=name))


def _with_selector(check: ResourceCheck, selector: str) -> ResourceCheck:
    # RBAC does not consider selectors.
    return check


def _check(check: _AccessValue, verb: str) -> Decision:
    return Decision(check.decide(check.request._replace(verb=verb)))


OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    "authorizer_path": _path,
    "authorizer_group": _group,
    "authorizer_serviceaccount": _service_account,
    "groupcheck_resource": _resource,
    "resourcecheck_subresource": _subresource,
    "resourcecheck_namespace": _namespace,
    "resourcecheck_name": _name,
    "authorizer_fieldselector": _with_selector,
    "authorizer_labelselector": _with_selector,
    "pathcheck_check": _check,
    "resourcecheck_check": _check,
    "decision_errored": lambda decision: False,
    "decision_error": lambda decision: "",
    "decision_allowed": lambda decision: decision.denial is None,
    "decision_reason": lambda decision: decision.denial or "",
}
