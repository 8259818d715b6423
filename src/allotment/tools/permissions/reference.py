"""The reference of permissions, made from the table: the second half of ``docs/permissions.md``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.tools.permissions.components import COMPONENTS
from allotment.tools.permissions.rule import ComponentPermissions, PermissionRule

#: Where the page is, from the root of the project, and the line behind which the parts stand there.
PAGE: Final = "docs/permissions.md"
MARK: Final = "<!-- What follows is made from allotment.tools.permissions.components. -->\n"


def page(before: str) -> str:
    """The page ``before`` with the parts as they are now."""
    return before.partition(MARK)[0] + MARK + "".join(map(_section, COMPONENTS.values()))


def _section(part: ComponentPermissions) -> str:
    text = f"\n## {part.name}\n\n{part.summary[0].upper()}{part.summary[1:]}.\n\n{_table(part.cluster_wide)}"
    return text + (f"\nIn its own namespace:\n\n{_table(part.in_namespace)}" if part.in_namespace else "")


def _table(rules: Iterable[PermissionRule]) -> str:
    return "| may | what | why |\n|---|---|---|\n" + "".join(map(_row, rules))


def _row(rule: PermissionRule) -> str:
    whole = [_whole(group, resource) for group in rule.groups for resource in rule.resources]
    what = ", ".join(f"`{one}`" for one in (*whole, *rule.paths))
    if rule.names:
        what += f" named {', '.join(f'`{name}`' for name in rule.names)}"
    return f"| {', '.join(rule.verbs)} | {what} | {rule.why} |\n"


def _whole(group: str, resource: str) -> str:
    """As kubectl writes it: ``resourceclaims.resource.k8s.io/status``."""
    plural, slash, subresource = resource.partition("/")
    return f"{plural}.{group}{slash}{subresource}" if group else resource
