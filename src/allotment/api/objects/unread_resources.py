"""Rejects commands whose result depends on resources that could not be read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.errors import InputError
from allotment.model.meta import Object
from allotment.model.server_facts import facts_among
from allotment.phrases import listed
from allotment.tools.unread import is_read_in_a_namespace

#: The resources with devices and their allocations.
OF_DEVICES: Final = ("nodes", "deviceclasses", "resourceslices", "resourceclaims")
#: The resources that request devices.
OF_PODS: Final = ("pods", "resourceclaimtemplates")
#: The resources that an answer about pods and devices depends on.
NEEDED: Final = (*OF_DEVICES, *OF_PODS, "devicetaintrules", "namespaces", "podgroups")


def must_know(values: Iterable[Object], *resources: str, in_one_namespace: bool = False) -> None:
    """Raise InputError if one of the resources could not be read from the cluster, or for the snapshot.

    ``in_one_namespace``: whether it suffices that a resource was read in the namespace of the user.
    """
    facts = facts_among(values)
    unread = facts.unread if facts is not None else {}
    missing = {
        name: unread[name]
        for name in resources
        if name in unread and not (in_one_namespace and is_read_in_a_namespace(unread[name]))
    }
    if missing:
        why = listed(dict.fromkeys(missing.values()))
        raise InputError(
            f"cannot answer without {listed(missing)}, which could not be read ({why})",
            "allot rbac reader prints the required permissions; allot rbac reader --check lists the missing ones",
        )
