"""``allot rbac``: prints the permissions of components as manifests, or checks whether an account has them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Final, NamedTuple

from allotment.cli.live.connection import on_cluster
from allotment.cli.output.console import Screen, folded, open_screen
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.errors import InputError
from allotment.fleet.errors import suggestion
from allotment.model.serialization import to_yaml
from allotment.model.trees import Tree
from allotment.permissions.access_reviews import AccessRequest, access_requests
from allotment.permissions.admission_policy import own_node_policy
from allotment.permissions.components import COMPONENTS, driver_permissions
from allotment.permissions.roles import NAMESPACE, manifests
from allotment.permissions.rule import ComponentPermissions, PermissionRule

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient

EXIT_MISSING: Final = 1
_DEFAULT_COMPONENTS: Final = ("reader",)
_COLUMNS: Final = 78


def run(arguments: Namespace) -> int:
    """Print manifests or names, and return 0; with ``--check`` return 1 if a permission is missing."""
    screen = open_screen()
    if arguments.user and not arguments.check:
        raise InputError("--as: requires --check", "manifests are for a service account: use --service-account NAME")
    parts = [
        _part(name, arguments.driver)
        for name in dict.fromkeys(arguments.parts or (tuple(COMPONENTS) if arguments.list else _DEFAULT_COMPONENTS))
    ]
    if arguments.list:
        return _list(screen, arguments, parts)
    namespace = arguments.namespace or NAMESPACE
    if arguments.check:
        return _check(screen, arguments, parts, namespace)
    documents = _documents(parts, namespace, arguments.service_account)
    if arguments.output == "json":
        items = [tree for tree, _ in documents]
        screen.data({"apiVersion": "v1", "kind": "List", "items": items}, "json")
    else:
        sys.stdout.write("---\n".join(_yaml(tree, rules) for tree, rules in documents))
    return 0


def _part(name: str, drivers: Sequence[str]) -> ComponentPermissions:
    if name not in COMPONENTS:
        raise InputError(
            f"unknown component {name!r}", suggestion(name, COMPONENTS) or f"known: {', '.join(COMPONENTS)}"
        )
    return driver_permissions(*drivers) if name == "driver" and drivers else COMPONENTS[name]


def _list(screen: Screen, arguments: Namespace, parts: Sequence[ComponentPermissions]) -> int:
    rows = [{"name": part.name, "rules": len(part.cluster_wide) + len(part.in_namespace), "for": part.summary}
            for part in parts]  # fmt: skip
    if arguments.output:
        screen.data(rows, arguments.output)
    else:
        screen.table(["COMPONENT", "RULES", "PURPOSE"], [[str(value) for value in row.values()] for row in rows])
    return 0


# --- manifests --------------------------------------------------------------------------------------------------------


def _documents(
    parts: Iterable[ComponentPermissions], namespace: str, account: str
) -> list[tuple[Tree, Sequence[PermissionRule]]]:
    """Yield each object once, with the rules that it is made from."""
    found: dict[tuple[str, str], tuple[Tree, Sequence[PermissionRule]]] = {}
    for part in parts:
        trees = manifests(part, namespace=namespace, account=account)
        if part.name == "driver":
            trees += own_node_policy(part, namespace=namespace, account=account)
        rules = {"ClusterRole": part.cluster_wide, "Role": part.in_namespace}
        for tree in trees:
            found.setdefault((tree["kind"], tree["metadata"]["name"]), (tree, rules.get(tree["kind"], ())))
    return list(found.values())


def _yaml(tree: Tree, rules: Sequence[PermissionRule]) -> str:
    """Return an object as YAML, with a comment above each rule of a role that gives its reason."""
    if not rules:
        return to_yaml([tree])
    head = to_yaml([{key: value for key, value in tree.items() if key != "rules"}])
    texts = (
        f"{_comment(rule.why)}{to_yaml([[tree_rule]])}" for rule, tree_rule in zip(rules, tree["rules"], strict=True)
    )
    return f"{head}rules:\n{''.join(texts)}"


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in wrap(f"{text[0].upper()}{text[1:]}.", _COLUMNS))


# --- checks -----------------------------------------------------------------------------------------------------------


class _PermissionReview(NamedTuple):
    """The permissions that a component lacks; ``reviewed``: how many it needs in this cluster."""

    part: str
    reviewed: int
    missing: Sequence[AccessRequest]


def _check(screen: Screen, arguments: Namespace, parts: Sequence[ComponentPermissions], namespace: str) -> int:
    from allotment.cluster.errors import StatusError
    from allotment.cluster.inspection import permissions
    from allotment.cluster.inspection.discovery import discover

    user = arguments.user
    if arguments.service_account:
        user = user or f"system:serviceaccount:{namespace}:{arguments.service_account}"

    async def review_permissions(client: HttpClient, way: ClusterTarget) -> tuple[str, list[_PermissionReview]]:
        discovery = await discover(client)
        found = []
        for part in parts:
            needed = permissions.served(discovery, access_requests(part, namespace))
            try:
                lacking = await permissions.missing(client, needed, user)
            except StatusError as error:
                if user and error.code == HTTPStatus.FORBIDDEN:
                    raise InputError(
                        f"you are not allowed to check the permissions of {user!r}",
                        "only an administrator can check them; omit --as to check your own permissions",
                    ) from None
                raise
            found.append(_PermissionReview(part.name, len(needed), lacking))
        return user or await permissions.current_user(client), found

    name, found = on_cluster(arguments, review_permissions)
    if arguments.output:
        data = _data(name, found)
        screen.data(data, arguments.output)
    else:
        _print_review(screen, name, found, namespace)
    return EXIT_MISSING if any(review.missing for review in found) else 0


def _print_review(screen: Screen, name: str, found: Sequence[_PermissionReview], namespace: str) -> None:
    user = name or "you"
    for review in found:
        if not review.missing:
            _say(screen, f"{review.part}: {user} has all {review.reviewed} required permissions.")
            continue
        _say(screen, f"{review.part}: {user} lacks {len(review.missing)} of {review.reviewed} required permissions.")
        screen.line()
        screen.table(["MISSING", "RESOURCE"], _rows(review.missing), ("",))
        screen.line()
    lacking = [review.part for review in found if review.missing]
    if lacking:
        home = f" -n {namespace}" if namespace != NAMESPACE else ""
        _say(
            screen,
            f"To create an account with these permissions: allot rbac {' '.join(lacking)}{home} | kubectl apply -f -",
        )


def _say(screen: Screen, text: str) -> None:
    for line in folded(text, screen.width):
        screen.line(line)


def _rows(missing: Iterable[AccessRequest]) -> Iterator[list[str]]:
    """Yield a row per resource, with all of its verbs."""
    for _, group in groupby(missing, lambda permission: permission._replace(verb="", why="")):
        permissions = list(group)
        first = permissions[0]
        where = f"-n {first.namespace}" if first.namespace else ""
        yield [
            ",".join(permission.verb for permission in permissions),
            " ".join(filter(None, (str(first), first.name, where))),
        ]


def _data(name: str, found: Iterable[_PermissionReview]) -> Tree:
    return {
        "user": name,
        "parts": [
            {
                "part": review.part,
                "needed": review.reviewed,
                "missing": [permission._asdict() for permission in review.missing],
            }
            for review in found
        ],
    }
