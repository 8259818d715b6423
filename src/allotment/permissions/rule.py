"""Permissions of components, with the purpose of each rule."""

from __future__ import annotations

from typing import NamedTuple


class PermissionRule(NamedTuple):
    """One rule of a role: ``verbs`` on ``resources`` of API ``groups`` ("" is the core one).

    ``names`` restricts the rule to objects with these names. ``paths`` are non-resource URLs (``/metrics``); such a
    rule has no groups and no resources. ``why`` is the purpose of the rule.
    """

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class ComponentPermissions(NamedTuple):
    """The permissions of a component with its own identity, or of the read-only tools.

    ``cluster_wide`` are rules of a ClusterRole, ``in_namespace`` those of a Role in the component's own namespace.
    """

    name: str
    summary: str
    cluster_wide: tuple[PermissionRule, ...]
    in_namespace: tuple[PermissionRule, ...] = ()
