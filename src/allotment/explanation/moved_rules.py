"""A pod's rules for nodes that state devices by labels, moved into its claims if nodes do not have the labels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.engine.diagnosis.value_distance import names_same
from allotment.engine.refusal import SuggestedChange
from allotment.explanation.stated_hardware import (
    StatedHardware,
    StatingClaim,
    classes_of,
    lost_hardware,
    product_condition,
    stating,
)
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim

#: What the text of a change says about rules that it removes.
_LOSS: Final = ", which loses "


class MovedRules(NamedTuple):
    """The claims of a pod that state what its rules for nodes no longer do after a change of these rules.

    ``pending``: the claims to allocate; ``templates``: their templates. ``driver_of``: returns the driver of a class,
    empty if it requires none. ``is_own``: whether a claim or template (by kind and name) exists and no other workload
    uses it. ``products``: returns the products of the published devices.
    """

    pod: Pod
    pending: tuple[ResourceClaim, ...]
    templates: Mapping[ObjectKey, str]
    driver_of: Callable[[str], str]
    is_own: Callable[[str], bool]
    products: Callable[[], Collection[str]]

    def claims(self, after: Pod) -> tuple[ResourceClaim, ...]:
        """The pending claims with the conditions that the rules of the pod state, but not those of the pod ``after``
        a change; the same ones if it loses none."""
        lost = lost_hardware(self.pod, after)
        return tuple(found.claim for found in self._stated(lost)) if lost else self.pending

    def changes(self, changes: tuple[SuggestedChange, ...], after: Pod) -> tuple[SuggestedChange, ...]:
        """Changes of the rules with those of the claims that state what the pod ``after`` them no longer does.

        As they are if the claims cannot state it: because of an unknown value, or because others use the claims, too.
        """
        lost = lost_hardware(self.pod, after)
        if not lost:
            return changes
        moved = [change for found in self._stated(lost) for change in found.changes]
        drivers = {self.driver_of(name) for name in classes_of(self.pending)}
        is_known = all(stated.condition and stated.driver in drivers for stated in map(self._resolved, lost))
        if not is_known or not all(self.is_own(change.object) for change in moved):
            return changes
        kept = (
            replace(change, text=change.text.partition(_LOSS)[0], remedy="select")
            if change.remedy == "unselect-hardware"
            else change
            for change in changes
        )
        return (*kept, *(replace(change, node=changes[-1].node) for change in moved))

    def _stated(self, lost: Sequence[StatedHardware]) -> list[StatingClaim]:
        known = [stated for stated in map(self._resolved, lost) if stated.condition]
        return [stating(claim, known, self.driver_of, self.templates.get(claim.key, "")) for claim in self.pending]

    def _resolved(self, stated: StatedHardware) -> StatedHardware:
        """The rule for all published products with the words that were written, if its product is unknown."""
        if not stated.names:
            return stated
        published = sorted(self.products())
        products = [[name for name in published if names_same(written, name)] for written in stated.names]
        return product_condition(stated, [name for names in products for name in names] if all(products) else ())
