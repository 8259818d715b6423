"""What came of a pod: its node, its devices, or why it has none, out of what the API server shows."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from allotment.model.trees import Tree

EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
#: What differs in each message by its nature.
_GENERATED: Final = re.compile(r"\b(w\d+s?-[pg]\d+-(?:c\d|extended-resources))-[a-z0-9]{5}\b")


class Outcome(NamedTuple):
    """What came of a pod. ``given``: the results of each claim that was allocated for it, in the pod's order;
    ``whole``: their allocations, less what is new every time, and what the pod's status says of extended resources;
    ``victims``: the pods that were sent away for it."""

    node: str = ""
    given: tuple[tuple[str, ...], ...] = ()
    whole: str = ""
    victims: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""

    @property
    def sentence(self) -> str:
        """Kubernetes' words, which come last, without names that were drawn."""
        return _GENERATED.sub(r"\1-*", self.message.splitlines()[-1] if self.message else "")

    def shown(self) -> str:
        """One line."""
        sent = f" instead of {', '.join(self.victims)}" if self.victims else ""
        found = f"{self.node}: {list(self.given)}" if self.node else f"{self.reason or 'silent'}: {self.sentence}"
        return found + sent


def allocated(tree: Tree) -> bool:
    """Whether a claim is."""
    return bool((tree.get("status") or {}).get("allocation"))


def claims_of(pod: Tree) -> list[str]:
    """The claims of a pod, in the order of its entries; empty names for those that are still to be made."""
    made = {one["name"]: one.get("resourceClaimName", "") for one in pod["status"].get("resourceClaimStatuses") or ()}
    entries = pod["spec"].get("resourceClaims") or ()
    return [one.get("resourceClaimName") or made.get(one["name"], "") for one in entries]


def results(claim: Tree) -> tuple[str, ...]:
    """Each device with what it was asked for, and what is taken of it."""
    listed = ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ()
    return tuple(
        f"{one['request']}={one['driver']}/{one['pool']}/{one['device']}{share(one.get('consumedCapacity') or {})}"
        for one in listed
    )


def whole(claims: Sequence[Tree], pod: Tree) -> str:
    """Allocations and mappings as one text, without what is new every time."""
    allocations = copy.deepcopy([one["status"].get("allocation") or {} for one in claims])
    for allocation in allocations:
        allocation.pop("allocationTimestamp", None)
        for result in (allocation.get("devices") or {}).get("results") or ():
            if "shareID" in result:
                result["shareID"] = "new"
    extended = (pod["status"].get("extendedResourceClaimStatus") or {}).get("requestMappings")
    return json.dumps([*allocations, extended], sort_keys=True)


def share(amounts: dict[str, str]) -> str:
    """What is taken of a device that others share."""
    return "".join(f" {key}={value}" for key, value in sorted(amounts.items()))


def notes(tree: Tree) -> Tree:
    """Annotations."""
    found: Tree = tree["metadata"].get("annotations") or {}
    return found


def owners(tree: Tree) -> list[Tree]:
    """Whose an object is."""
    found: list[Tree] = tree["metadata"].get("ownerReferences") or []
    return found


def owner(tree: Tree) -> str:
    """The name of the first owner; empty if there is none."""
    return str(next((one["name"] for one in owners(tree)), ""))
