"""A permission, and why it is needed."""

from __future__ import annotations

from typing import NamedTuple


class PermissionRule(NamedTuple):
    """One rule of a role: ``verbs`` on ``resources`` of API ``groups`` ("" is the core one).

    ``names`` limits it to objects of these names. ``paths`` are for what is no resource (``/metrics``); such a rule has
    no groups and no resources. ``why`` is what fails, or is not seen, without it.
    """

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class ComponentPermissions(NamedTuple):
    """A part of Allotment with an identity of its own: the read-only tools, or a component.

    ``everywhere`` are rules of a ClusterRole; ``at_home`` those of a Role in the namespace of the part's Lease and
    records.
    """

    name: str
    summary: str
    cluster_wide: tuple[PermissionRule, ...]
    in_namespace: tuple[PermissionRule, ...] = ()
