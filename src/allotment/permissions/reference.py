"""Generates the reference of permissions: the second half of ``docs/reference/permissions.md``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.permissions.components import COMPONENTS
from allotment.permissions.rule import ComponentPermissions, PermissionRule

#: The path of the page in the repository, and the line after which the components are inserted.
PAGE: Final = "docs/reference/permissions.md"
MARK: Final = "<!-- Everything below is generated from allotment.permissions.components. -->\n"


def page(before: str) -> str:
    """The page ``before`` with the current permissions."""
    return before.partition(MARK)[0] + MARK + "".join(map(_section, COMPONENTS.values()))


def _section(component: ComponentPermissions) -> str:
    summary = f"{component.summary[0].upper()}{component.summary[1:]}."
    text = f"\n## {component.name}\n\n{summary}\n\n{_table(component.cluster_wide)}"
    return text + (f"\nIn its own namespace:\n\n{_table(component.in_namespace)}" if component.in_namespace else "")


def _table(rules: Iterable[PermissionRule]) -> str:
    return "| verbs | resources | purpose |\n|---|---|---|\n" + "".join(map(_row, rules))


def _row(rule: PermissionRule) -> str:
    whole = [_whole(group, resource) for group in rule.groups for resource in rule.resources]
    resources = ", ".join(f"`{name}`" for name in (*whole, *rule.paths))
    if rule.names:
        resources += f" named {', '.join(f'`{name}`' for name in rule.names)}"
    return f"| {', '.join(rule.verbs)} | {resources} | {rule.why} |\n"


def _whole(group: str, resource: str) -> str:
    """The resource as in kubectl: ``resourceclaims.resource.k8s.io/status``."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource
