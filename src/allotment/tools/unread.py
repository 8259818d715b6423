"""The resources that an answer about a cluster does not consider.

They were not read because the cluster does not serve them, or serves them only in unknown versions, or because the user
may not read them. The facts about the server are in a snapshot as well, so that an answer from a file says the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from allotment.model.core import Node, Pod
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.server_facts import ServerFacts, facts_among, serves_devices
from allotment.model.workloads import template_of
from allotment.phrases import listed

NOT_SERVED: Final = "not served"
#: In the reason of a resource that was read in one namespace only, whose name follows.
_OUTSIDE: Final = " outside of namespace "
#: Names of ``ServerFacts.unread`` that are not resources.
_TOPICS: Final = frozenset({"gates", "served", "permissions"})


def unread_resources(values: Sequence[Object], needed: Iterable[str] = ()) -> dict[str, str]:
    """The resources that the cluster of these objects has not shown, with the reason.

    ``needed``: the resources that the answer depends on; by default all. Without facts about the server, none is known
    to be missing. Optional kinds that are not served are listed only if the objects show that they would matter:
    DeviceTaintRules if there are devices, PodGroups if a pod names one.
    """
    facts = facts_among(values)
    if facts is None:
        return {}
    found = {name: why for name, why in facts.unread.items() if name not in _TOPICS}
    wanted = frozenset(needed)
    found |= dict.fromkeys(_not_served(facts, values, wanted), NOT_SERVED)
    return {name: why for name, why in found.items() if not wanted or name in wanted}


def outside_of(namespace: str, why: str) -> str:
    """The reason for a resource that could only be read in one namespace. ``why``: the reason elsewhere."""
    return f"{why}{_OUTSIDE}{namespace}"


def is_read_in_a_namespace(why: str) -> bool:
    """Whether a reason is that of a resource that was read in one namespace.

    >>> is_read_in_a_namespace(outside_of("team-a", "forbidden")), is_read_in_a_namespace("forbidden")
    (True, False)
    """
    return _OUTSIDE in why


def unread_notes(unread: Mapping[str, str]) -> tuple[str, ...]:
    """One sentence for each reason.

    >>> unread_notes({"podgroups": "not served"})
    ('the cluster does not serve podgroups: none are considered',)
    >>> unread_notes({"nodes": "forbidden", "pods": "forbidden"})
    ('not readable and therefore ignored: nodes and pods (forbidden)',)
    """
    by_reason: dict[str, list[str]] = {}
    for resource, why in unread.items():
        by_reason.setdefault(why, []).append(resource)
    return tuple(
        f"the cluster does not serve {listed(names)}: none are considered"
        if why == NOT_SERVED
        else f"not readable and therefore ignored: {listed(names)} ({why})"
        for why, names in by_reason.items()
    )


def missing_kinds_note(values: Iterable[Object]) -> str:
    """Return a sentence about the kinds that a snapshot refers to, but of which it contains no object; may be empty.

    A snapshot that `allot snapshot` took has facts about the server, and contains all of their objects.
    """
    found = tuple(values)
    kinds = {type(value) for value in found}
    if not found or ServerFacts in kinds:
        return ""
    pods = (value.spec if isinstance(value, Pod) else template[1].spec if (template := template_of(value)) else None
            for value in found)  # fmt: skip
    entries = [entry for spec in pods if spec is not None for entry in spec.resource_claims]
    requests = bool(kinds & {ResourceClaim, ResourceClaimTemplate})
    needed = (
        (ResourceSlice, True),
        (DeviceClass, requests),
        (ResourceClaimTemplate, any(entry.resource_claim_template_name for entry in entries)),
        (ResourceClaim, any(entry.resource_claim_name for entry in entries)),
    )
    missing = [f"{kind.__name__}{'es' if kind is DeviceClass else 's'}" for kind, is_needed in needed
               if is_needed and kind not in kinds]  # fmt: skip
    if not missing:
        return ""
    return (
        f"the snapshot contains no {listed(missing, 'or')}: the cluster may have them, and reasons that depend on them"
        " may be wrong; allot snapshot saves all that is needed"
    )


def _not_served(facts: ServerFacts, values: Iterable[Object], wanted: Collection[str]) -> Iterable[str]:
    if "served" in facts.unread or not serves_devices(facts):
        return  # unknown, or reported as a whole
    for name, matters in (("devicetaintrules", _is_slice), ("podgroups", names_group)):
        if (not wanted or name in wanted) and not facts.served.get(name) and any(map(matters, values)):
            yield name


def _is_slice(value: Object) -> bool:
    return isinstance(value, ResourceSlice)


def names_group(value: Object) -> bool:
    """Whether an object is a pod of a group, or makes such pods."""
    if isinstance(value, Pod):
        return value.spec.scheduling_group is not None
    found = None if isinstance(value, ResourceSlice | ResourceClaim | Node) else template_of(value)
    return found is not None and found[1].spec.scheduling_group is not None
