"""The permissions that components and commands need: as manifests, and as a review of what an account lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from allotment.api.cluster import Cluster, cluster_given
from allotment.errors import InputError
from allotment.fleet.errors import suggestion
from allotment.model.trees import Tree
from allotment.permissions.access_reviews import AccessRequest, access_requests
from allotment.permissions.admission_policy import own_node_policy
from allotment.permissions.components import COMPONENTS, driver_permissions
from allotment.permissions.roles import NAMESPACE, manifests
from allotment.permissions.rule import ComponentPermissions, PermissionRule
from allotment.phrases import split_words

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient
    from allotment.cluster.remote.kubeconfig import ClusterTarget

_DEFAULT_COMPONENTS: Final = ("reader",)


class ComponentReview(NamedTuple):
    """The permissions that a component lacks. ``reviewed``: how many it needs in the cluster."""

    component: str
    reviewed: int
    missing: Sequence[AccessRequest]


class AccountReview(NamedTuple):
    """The permissions that an account lacks, by component. ``user``: empty if the cluster does not report it."""

    user: str
    components: Sequence[ComponentReview]

    def to_dict(self) -> dict[str, Any]:
        """Return what ``allot rbac --check -o json`` prints."""
        return {
            "user": self.user,
            "parts": [
                {
                    "part": review.component,
                    "needed": review.reviewed,
                    "missing": [permission._asdict() for permission in review.missing],
                }
                for review in self.components
            ],
        }


def components(*names: str, drivers: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the name, the number of rules and the purpose of components, by default of all.

    ``drivers``: the names of the drivers, for component ``driver``. Raises InputError.

    The keys of a component: ``name``, ``rules``, ``for``.
    """
    return [
        {"name": each.name, "rules": len(each.cluster_wide) + len(each.in_namespace), "for": each.summary}
        for each in permissions_of(names or tuple(COMPONENTS), drivers)
    ]


def permissions(
    *components: str, namespace: str = NAMESPACE, service_account: str = "", drivers: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the service account, roles and bindings of components as a List; by default of the reader.

    ``drivers``: the names of the drivers, for component ``driver``. Raises InputError.
    """
    documents = role_manifests(permissions_of(components, drivers), namespace, service_account)
    return {"apiVersion": "v1", "kind": "List", "items": [tree for tree, _ in documents]}


def missing_permissions(
    *components: str,
    cluster: Cluster | None = None,
    user: str = "",
    namespace: str = NAMESPACE,
    service_account: str = "",
    drivers: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the permissions that components need and the user of a running cluster lacks; by default of the reader.

    ``user``: another user to review, which requires an administrator; ``service_account``: the same for one of
    ``namespace``. Raises InputError, StatusError and Unreachable.

    The keys: ``user`` and ``parts``; of a part: ``part``, ``needed``, ``missing``.
    """
    chosen = permissions_of(components, drivers)
    return review_permissions(chosen, cluster_given(cluster, Cluster.live), user, namespace, service_account).to_dict()


def permissions_of(names: Iterable[str], drivers: Sequence[str] = ()) -> list[ComponentPermissions]:
    """Return the permissions of components, by default of the reader. Raises InputError for an unknown one."""
    return [_component(name, drivers) for name in dict.fromkeys(names) or _DEFAULT_COMPONENTS]


def _component(name: str, drivers: Sequence[str]) -> ComponentPermissions:
    if name not in COMPONENTS:
        hint = suggestion(name, COMPONENTS) or f"known: {', '.join(COMPONENTS)}"
        raise InputError(f"unknown component {name!r}", hint)
    return driver_permissions(*split_words(drivers)) if name == "driver" and drivers else COMPONENTS[name]


def role_manifests(
    components: Iterable[ComponentPermissions], namespace: str, account: str
) -> list[tuple[Tree, Sequence[PermissionRule]]]:
    """Return each object once, with the rules that it is made from."""
    found: dict[tuple[str, str], tuple[Tree, Sequence[PermissionRule]]] = {}
    for component in components:
        trees = manifests(component, namespace=namespace, account=account)
        if component.name == "driver":
            trees += own_node_policy(component, namespace=namespace, account=account)
        rules = {"ClusterRole": component.cluster_wide, "Role": component.in_namespace}
        for tree in trees:
            found.setdefault((tree["kind"], tree["metadata"]["name"]), (tree, rules.get(tree["kind"], ())))
    return list(found.values())


def review_permissions(
    components: Iterable[ComponentPermissions], cluster: Cluster, user: str, namespace: str, service_account: str
) -> AccountReview:
    """Return what ``missing_permissions`` does, as a value."""
    from allotment.api.clusters.live import LiveSource
    from allotment.cluster.errors import StatusError
    from allotment.cluster.inspection import permissions
    from allotment.cluster.inspection.discovery import discover

    if not isinstance(cluster.source, LiveSource):
        raise InputError("expected a running cluster, which alone knows the permissions of a user", argument="cluster")
    if service_account:
        user = user or f"system:serviceaccount:{namespace}:{service_account}"

    async def review(client: HttpClient, target: ClusterTarget) -> AccountReview:
        discovery = await discover(client)
        found = []
        for component in components:
            needed = permissions.served(discovery, access_requests(component, namespace))
            try:
                missing = await permissions.missing(client, needed, user)
            except StatusError as error:
                if user and error.code == HTTPStatus.FORBIDDEN:
                    raise InputError(
                        f"you are not allowed to check the permissions of {user!r}",
                        "only an administrator can check them; every user can check their own",
                    ) from None
                raise
            found.append(ComponentReview(component.name, len(needed), missing))
        return AccountReview(user or await permissions.current_user(client), found)

    return cluster.source.run(review)
