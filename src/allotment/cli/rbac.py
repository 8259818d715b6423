"""``allot rbac``: prints the permissions of components as manifests, or checks whether an account has them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Final

from allotment.cli.inputs.clusters import cluster_errors_of, live_cluster
from allotment.cli.output.console import Screen, folded, open_screen
from allotment.errors import InputError
from allotment.model.serialization import to_yaml
from allotment.model.trees import Tree
from allotment.permissions.access_reviews import AccessRequest
from allotment.permissions.roles import NAMESPACE
from allotment.permissions.rule import ComponentPermissions, PermissionRule
from allotment.reference.required_permissions import (
    AccountReview,
    components,
    permissions,
    permissions_of,
    review_permissions,
    role_manifests,
)

EXIT_MISSING: Final = 1
_COLUMNS: Final = 78


def run(arguments: Namespace) -> int:
    """Print manifests or names, and return 0; with ``--check`` return 1 if a permission is missing."""
    screen = open_screen()
    if arguments.user and not arguments.check:
        raise InputError("--as: requires --check", "manifests are for a service account: use --service-account NAME")
    if arguments.list:
        return _list(screen, arguments)
    parts = permissions_of(arguments.parts, arguments.driver)
    namespace = arguments.namespace or NAMESPACE
    if arguments.check:
        return _check(screen, arguments, parts, namespace)
    if arguments.output == "json":
        account, drivers = arguments.service_account, arguments.driver
        screen.data(
            permissions(*arguments.parts, namespace=namespace, service_account=account, drivers=drivers), "json"
        )
    else:
        documents = role_manifests(parts, namespace, arguments.service_account)
        sys.stdout.write("---\n".join(_yaml(tree, rules) for tree, rules in documents))
    return 0


def _list(screen: Screen, arguments: Namespace) -> int:
    rows = components(*arguments.parts, drivers=arguments.driver)
    if arguments.output:
        screen.data(rows, arguments.output)
    else:
        screen.table(["COMPONENT", "RULES", "PURPOSE"], [[str(value) for value in row.values()] for row in rows])
    return 0


def _check(screen: Screen, arguments: Namespace, parts: Sequence[ComponentPermissions], namespace: str) -> int:
    cluster = live_cluster(arguments)
    with cluster_errors_of(cluster):
        found = review_permissions(parts, cluster, arguments.user, namespace, arguments.service_account)
    if arguments.output:
        screen.data(found.to_dict(), arguments.output)
    else:
        _print_review(screen, found, namespace)
    return EXIT_MISSING if any(review.missing for review in found.components) else 0


# --- manifests --------------------------------------------------------------------------------------------------------


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


def _print_review(screen: Screen, found: AccountReview, namespace: str) -> None:
    user = found.user or "you"
    for review in found.components:
        if not review.missing:
            _say(screen, f"{review.component}: {user} has all {review.reviewed} required permissions.")
            continue
        _say(
            screen, f"{review.component}: {user} lacks {len(review.missing)} of {review.reviewed} required permissions."
        )
        screen.line()
        screen.table(["MISSING", "RESOURCE"], _rows(review.missing), ("",))
        screen.line()
    lacking = [review.component for review in found.components if review.missing]
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
