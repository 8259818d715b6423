"""The manifests of a claim: the new objects, alone or with the workload that uses them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from allotment.model.loading import load_text
from allotment.tools.claims.objects import Plan
from allotment.tools.claims.workload import Workload, patch_of, usage_lines


@dataclass(frozen=True, slots=True)
class ClaimManifests:
    """The claim for required devices.

    ``text``: YAML with comments; after the documents of the workload's file, if there is a workload. ``plan``: the new
    objects, and how pods refer to them. ``workload``: the one that gets the devices. ``waits_for``: the reason
    why the devices are not available at present.
    """

    text: str
    plan: Plan
    workload: Workload | None = None
    waits_for: str = ""

    @property
    def objects(self) -> tuple[dict[str, Any], ...]:
        """The objects of ``text``."""
        return tuple(document.tree for document in load_text(self.text).documents)

    @property
    def patch(self) -> Any:
        """The change of the workload for ``kubectl patch``; None without a workload."""
        return patch_of(self.plan, self.workload)[1] if self.workload is not None else None

    @property
    def patch_type(self) -> str:
        """The ``--type`` for ``kubectl patch``; empty without a workload."""
        return patch_of(self.plan, self.workload)[0] if self.workload is not None else ""

    @property
    def usage(self) -> tuple[str, ...]:
        """The lines of a pod's spec that refer to the new objects."""
        return tuple(usage_lines(self.plan))

    @property
    def notes(self) -> tuple[str, ...]:
        """The new objects and the reasons for their kinds, and why the devices are not available, as sentences."""
        return (*self._kinds(), *self.availability)

    @property
    def availability(self) -> tuple[str, ...]:
        """The reason why the devices are not available at present, as a sentence; empty if they are."""
        return (f"the claim cannot be allocated at present: {self.waits_for}",) if self.waits_for else ()

    def _kinds(self) -> Iterator[str]:
        plan, workload = self.plan, self.workload
        if workload is None:
            if plan.claim is not None:
                yield f"{plan.claim.kind}: {plan.claim.why}"
            return
        containers = ", ".join(container.name for container in workload.containers)
        for created in plan.new:
            yield f"{created.kind} {created.name} for container {containers} of {workload.name}: {created.why}"
        if not plan.new and plan.limits is not None:
            yield f"{workload.name} requests {plan.limits[0]}, which the driver's DeviceClass serves"

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints: the object, or a List of several."""
        objects = self.objects
        return objects[0] if len(objects) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(objects)}
