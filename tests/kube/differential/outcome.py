"""The outcome of a pod, from the objects in the API server: its node and devices, or the reason why it has none."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from allotment.model.trees import Tree

EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
#: Parts of a message that always differ.
_GENERATED: Final = re.compile(r"\b(w\d+s?-[pg]\d+-(?:c\d|extended-resources))-[a-z0-9]{5}\b")


class Outcome(NamedTuple):
    """The outcome of a pod. ``given``: the results of each claim that was allocated for it, in the pod's order;
    ``whole``: their allocations without generated fields, and the pod's status for extended resources; ``victims``: the
    preempted pods."""

    node: str = ""
    devices: tuple[tuple[str, ...], ...] = ()
    allocations: str = ""
    victims: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""

    @property
    def sentence(self) -> str:
        """Kubernetes' message, which comes last, without generated names."""
        return _without_suffixes(self.message.splitlines()[-1] if self.message else "")

    def text(self) -> str:
        """The outcome in one line."""
        sent = f" instead of {', '.join(self.victims)}" if self.victims else ""
        found = f"{self.node}: {list(self.devices)}" if self.node else f"{self.reason or 'silent'}: {self.sentence}"
        return found + sent


def _without_suffixes(text: str) -> str:
    """A text without the generated suffixes of names."""
    return _GENERATED.sub(r"\1-*", text)


def is_allocated(tree: Tree) -> bool:
    """Whether a claim is allocated."""
    return bool((tree.get("status") or {}).get("allocation"))


def claims_of(pod: Tree) -> list[str]:
    """The names of a pod's claims, in the order of its entries; empty for those that do not exist yet."""
    created = {
        status["name"]: status.get("resourceClaimName", "")
        for status in pod["status"].get("resourceClaimStatuses") or ()
    }
    entries = pod["spec"].get("resourceClaims") or ()
    return [entry.get("resourceClaimName") or created.get(entry["name"], "") for entry in entries]


def results(claim: Tree) -> tuple[str, ...]:
    """Each device with its request, and its consumed capacity."""
    listed = ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ()
    return tuple(
        f"{item['request']}={item['driver']}/{item['pool']}/{item['device']}{share(item.get('consumedCapacity') or {})}"
        for item in listed
    )


def allocations_text(claims: Sequence[Tree], pod: Tree) -> str:
    """Allocations, mappings and the node's resources that devices use as one text, without generated fields."""
    allocations = copy.deepcopy([claim["status"].get("allocation") or {} for claim in claims])
    for allocation in allocations:
        allocation.pop("allocationTimestamp", None)
        for result in (allocation.get("devices") or {}).get("results") or ():
            if "shareID" in result:
                result["shareID"] = "new"
    extended = (pod["status"].get("extendedResourceClaimStatus") or {}).get("requestMappings")
    used = pod["status"].get("nodeAllocatableResourceClaimStatuses")
    return _without_suffixes(json.dumps([*allocations, extended, used], sort_keys=True))


def share(amounts: dict[str, str]) -> str:
    """The consumed capacity of a shared device."""
    return "".join(f" {key}={value}" for key, value in sorted(amounts.items()))


def annotations_of(tree: Tree) -> Tree:
    found: Tree = tree["metadata"].get("annotations") or {}
    return found


def owners(tree: Tree) -> list[Tree]:
    found: list[Tree] = tree["metadata"].get("ownerReferences") or []
    return found


def owner(tree: Tree) -> str:
    """The name of the first owner; empty if there is none."""
    return str(next((owner["name"] for owner in owners(tree)), ""))
