"""The attributes of a request that admission decides on, and their values in expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from allotment.apiserver.access.authentication import AUTHENTICATED_GROUP
from allotment.apiserver.access.authorization import Authorizer as Authorize
from allotment.apiserver.access.reviews import user_info
from allotment.apiserver.access.tokens import account_user
from allotment.apiserver.admission.expressions import cel_value
from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.kind import ServedKind, User
from allotment.apiserver.served_kinds import shape_in
from allotment.cel.evaluation.library.authorizer import AccessRequest, Authorizer, ResourceCheck
from allotment.cel.evaluation.values import Value
from allotment.model.normal_form import normalize
from allotment.model.trees import Tree


class Attributes(NamedTuple):
    """A request after its changes by the server, before it is stored.

    ``operation``: CREATE, UPDATE, DELETE or CONNECT. ``version``: that of the request. ``new`` and ``old`` are in the
    storage version; a DELETE has no new object, a CREATE no old one. ``options``: CreateOptions and so on.
    ``body_kind``: apiVersion and kind of the objects, if they are not of the kind itself, such as a Scale.
    """

    operation: str
    kind: ServedKind
    version: str
    namespace: str
    name: str
    user: User
    warn: Callable[[str], None]
    new: Tree | None = None
    old: Tree | None = None
    subresource: str = ""
    dry_run: bool = False
    options: Tree | None = None
    body_kind: tuple[str, str] | None = None

    @property
    def admission_namespace(self) -> str:
        """The namespace of the request; for a namespace, its own name."""
        return self.name if self.kind.bucket == "namespaces" else self.namespace

    @property
    def objects(self) -> Sequence[Tree]:
        """The new and the old object, those that exist."""
        return [tree for tree in (self.new, self.old) if tree is not None]

    def converted(self, tree: Tree | None, version: str) -> Tree | None:
        """One of its objects in another version."""
        if tree is None or self.body_kind is not None:
            return tree
        converted = in_version(self.kind, version, tree)
        return converted if converted is tree else normalize(converted, shape_in(self.kind, version))


def request_values(
    attributes: Attributes, version: str, namespace: Tree | None, authorize: Authorize
) -> Mapping[str, Value]:
    """The variables of expressions that depend on the request; ``version`` is the one that the policy matches."""

    def decide(request: AccessRequest) -> str | None:
        user = attributes.user if request.account is None else _account(*request.account)
        denial = authorize(
            user, request.verb, request.group, request.resource, request.subresource, request.namespace, request.name,
            request.path,
        )  # fmt: skip
        # RBAC gives no reason for what no rule allows.
        return None if denial is None else ""

    resource = AccessRequest(
        group=attributes.kind.group, resource=attributes.kind.plural, subresource=attributes.subresource,
        namespace=attributes.admission_namespace, name=attributes.name,
    )  # fmt: skip
    return {
        "object": cel_value(attributes.converted(attributes.new, version)),
        "oldObject": cel_value(attributes.converted(attributes.old, version)),
        "namespaceObject": cel_value(_shown_namespace(namespace)),
        "request": cel_value(admission_request(attributes, version)),
        "authorizer": Authorizer(decide, AccessRequest()),
        "authorizer.requestResource": ResourceCheck(decide, resource),
    }


def _account(namespace: str, name: str) -> User:
    """The user of a service account, as upstream without the group of all authenticated users."""
    user = account_user(namespace, name)
    return user._replace(groups=tuple(group for group in user.groups if group != AUTHENTICATED_GROUP))


def admission_request(attributes: Attributes, version: str) -> Tree:
    """``request``: an AdmissionRequest without the objects."""
    request: Tree = {
        "uid": "",
        "kind": _kind(attributes, version),
        "resource": _resource(attributes, version),
        "subResource": attributes.subresource,
        "requestKind": _kind(attributes, attributes.version),
        "requestResource": _resource(attributes, attributes.version),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.admission_namespace,
    }
    # The optional fields are omitted if they are empty.
    request = {key: value for key, value in request.items() if value or key == "uid"}
    return {
        **request,
        "operation": attributes.operation,
        "userInfo": user_info(attributes.user),
        "object": None,
        "oldObject": None,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }


def _kind(attributes: Attributes, version: str) -> Tree:
    if attributes.body_kind is not None:
        group, _, short = attributes.body_kind[0].rpartition("/")
        return {"group": group, "version": short, "kind": attributes.body_kind[1]}
    return {"group": attributes.kind.group, "version": version, "kind": attributes.kind.kind}


def _resource(attributes: Attributes, version: str) -> Tree:
    return {"group": attributes.kind.group, "version": version, "resource": attributes.kind.plural}


def _shown_namespace(namespace: Tree | None) -> Tree | None:
    """The fields of a namespace that expressions can read."""
    if namespace is None:
        return None
    hidden = ("managedFields", "ownerReferences", "selfLink")
    meta = {key: value for key, value in namespace["metadata"].items() if key not in hidden}
    return {"metadata": meta, "spec": namespace.get("spec") or {}, "status": namespace.get("status") or {}}
