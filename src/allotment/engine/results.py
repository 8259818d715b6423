"""Conversion of a search solution to ``AllocationResult``: devices, driver configuration, node selector; error texts.

Configuration (KEP-4381): first the entries of classes, each class once with the requests that use it, then the claim's
own entries that apply to a satisfied request. Drivers apply them in that order, so a claim overrides its class. Until
1.36 a claim's entry is repeated for every request that it names; from 1.37 it appears once, and an entry that applies
to all requests names none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from allotment.engine.claims.derived_values import DerivedFailure
from allotment.engine.claims.eligibility import DeviceMatcher
from allotment.engine.claims.requests import MAX_DEVICES_PER_CLAIM, ClaimShape, Subrequest
from allotment.engine.cluster.devices import DeviceRecord
from allotment.engine.cluster.layout import NodeView
from allotment.engine.outcome import AbortCause, Aborted
from allotment.engine.release import release
from allotment.engine.search.verdict import Pick, Solution, Stop, Undecided
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequestAllocationResult,
)

ShareID = Callable[[], str]


class UnsupportedNodeSelector(ValueError):
    """Raised when the node selector of a chosen device has more than one term, which validation excludes."""


class ResultAssembler:
    """Builds the results of one shape. ``claims`` are those that the shape was compiled from."""

    def __init__(
        self, shape: ClaimShape, claims: Sequence[DeviceClaim], matcher: DeviceMatcher, features: Features
    ) -> None:
        self._shape = shape
        self._matcher = matcher
        self._claims = tuple(claims)
        self._binding = features.enabled("DRADeviceBindingConditions")
        self._skips = features.enabled("DRAOptionalNodeOperations")
        self._release = release(features)
        self._configs: dict[tuple[int, tuple[int, ...]], tuple[DeviceAllocationConfiguration, ...]] = {}

    def results(
        self, view: NodeView, solution: Solution, claims: Sequence[ObjectKey], share_id: ShareID
    ) -> tuple[AllocationResult, ...] | Aborted:
        """One result per claim. A shareable device gets a new share ID for every pick."""
        made: list[AllocationResult] = []
        for claim, picks in enumerate(solution.picks):
            try:
                selector = node_selector(view, picks)
            except UnsupportedNodeSelector as error:
                key = claims[claim]
                text = f"create NodeSelector for claim {key.name}: {error}"
                return Aborted(text, fatal=True, cause=AbortCause.NODE_SELECTION, claim=key)
            devices = DeviceAllocationResult(
                results=tuple([self._result(view, pick, share_id) for pick in picks]),
                config=self._config(claim, solution.chosen[claim]),
            )
            made.append(AllocationResult(devices=devices, node_selector=selector))
        return tuple(made)

    def _result(self, view: NodeView, pick: Pick, share_id: ShareID) -> DeviceRequestAllocationResult:
        subrequest = self._shape.subrequests[pick.subrequest]
        record = view.records[pick.slot]
        driver, pool, device = record.id
        traits = record.traits
        skips = record.slice.spec.skip_node_operations if self._skips else ()
        if not (subrequest.admin or traits.binding or traits.shareable or skips):
            return DeviceRequestAllocationResult(
                request=subrequest.name, driver=driver, pool=pool, device=device, tolerations=subrequest.tolerations
            )
        # Only a device that allows multiple allocations records the capacity that each one consumes (KEP-5075).
        consumed = self._matcher.profile(record).matches[subrequest.number].consumed if traits.shareable else None
        return DeviceRequestAllocationResult(
            request=subrequest.name,
            driver=driver,
            pool=pool,
            device=device,
            admin_access=True if subrequest.admin else None,
            tolerations=subrequest.tolerations,
            binding_conditions=record.device.binding_conditions if self._binding else (),
            binding_failure_conditions=record.device.binding_failure_conditions if self._binding else (),
            share_id=share_id() if traits.shareable else None,
            consumed_capacity=dict(consumed or {}),
            skip_node_operations=skips,
        )

    # --- configuration -----------------------------------------------------------------------------------------------

    def _config(self, claim: int, chosen: tuple[int, ...]) -> tuple[DeviceAllocationConfiguration, ...]:
        found = self._configs.get((claim, chosen))
        if found is None:
            subrequests = [self._shape.subrequests[number] for number in chosen]
            entries = [*self._of_classes(subrequests), *self._of_claim(self._claims[claim], subrequests)]
            if not self._release.config_per_request:
                entries = [_for_all(entry, subrequests) for entry in entries]
            found = self._configs[claim, chosen] = tuple(entries)
        return found

    def _of_classes(self, subrequests: list[Subrequest]) -> list[DeviceAllocationConfiguration]:
        users: dict[str, list[Subrequest]] = {}
        for subrequest in subrequests:
            if subrequest.class_ is not None:
                users.setdefault(subrequest.class_.metadata.name, []).append(subrequest)
        return [
            DeviceAllocationConfiguration(
                source="FromClass", requests=tuple(subrequest.name for subrequest in of_class), opaque=config.opaque
            )
            for of_class in users.values()
            if of_class[0].class_ is not None
            for config in of_class[0].class_.spec.config
        ]

    def _of_claim(self, claim: DeviceClaim, subrequests: list[Subrequest]) -> list[DeviceAllocationConfiguration]:
        entries = []
        for config in claim.config:
            concerned = sum(_concerns(config.requests, subrequest) for subrequest in subrequests)
            times = concerned if self._release.config_per_request else min(concerned, 1)
            entry = DeviceAllocationConfiguration(source="FromClaim", requests=config.requests, opaque=config.opaque)
            entries.extend([entry] * (times if config.requests else 1))
        return entries

    # --- errors ------------------------------------------------------------------------------------------------------

    def aborted(self, view: NodeView, stop: Stop, claims: Sequence[ObjectKey]) -> Aborted:
        """The error with upstream's text."""
        claim = claims[stop.claim]
        subrequest = self._shape.subrequests[stop.subrequest] if stop.subrequest is not None else None
        record = view.records[stop.slot] if stop.slot is not None else None
        return Aborted(
            self._error_text(view, stop, claim, subrequest),
            fatal=True,
            cause=stop.cause,
            claim=claim,
            request=subrequest.name if subrequest is not None else None,
            device=record.id if record is not None else None,
        )

    def undecided(self, verdict: Undecided, claims: Sequence[ObjectKey]) -> Aborted:
        """The error of a search that reached its step limit; it is not fatal, other nodes are still tried."""
        claim, subrequest = claims[verdict.claim], self._shape.subrequests[verdict.subrequest]
        return Aborted(
            f"claim {claim}, request {subrequest.own_name}: search stopped after {verdict.steps} steps without a "
            "result",
            fatal=False,
            cause=AbortCause.WORK_LIMIT,
            claim=claim,
            request=subrequest.name,
            steps=verdict.steps,
        )

    def _error_text(self, view: NodeView, stop: Stop, claim: ObjectKey, subrequest: Subrequest | None) -> str:
        if stop.problem is not None:
            return stop.problem.text_for(claim)
        if stop.cause is AbortCause.TOO_MANY_DEVICES:
            limit = f"exceeds the claim limit of {MAX_DEVICES_PER_CLAIM}"
            if subrequest is None:
                return f"claim {claim}: number of requested devices {stop.devices} {limit}"
            added = f"adding {stop.devices - stop.devices_before} devices {limit}"
            return (
                f"claim {claim}, request {subrequest.main}: {added}, with {stop.devices_before} already accounted for"
            )
        assert subrequest is not None
        where = f"claim {claim}, request {subrequest.own_name}"
        if stop.pool is not None:
            state = "currently being updated" if stop.cause is AbortCause.POOL_INCOMPLETE else "currently invalid"
            return f"{where}: asks for all devices, but resource pool {view.pools[stop.pool].id} is {state}"
        assert stop.slot is not None
        record = view.records[stop.slot]
        if stop.cause is AbortCause.CONSTRAINT_WITH_ALL:
            return f"{where}: cannot add device {record.id} because a claim constraint would not be satisfied"
        if stop.cause is AbortCause.DERIVED_ATTRIBUTE:
            return self._derived_text(subrequest, record)
        match = self._matcher.profile(record).matches[subrequest.number]
        if stop.cause is AbortCause.CAPACITY:
            device = record.id.device if subrequest.all else record.id
            return f"{where}: checking capacity for device {device}: {match.capacity_error}"
        failure = match.failure
        assert failure is not None
        owner = f"class {failure.selector.of_class}" if failure.selector.of_class else f"claim {claim}"
        if failure.is_compile_error:
            return f"{owner}: selector #{failure.selector.position}: CEL compile error: {failure.text}"
        on_device = f" on device {record.id}" if self._release.errors_name_device else ""
        return f"{owner}: selector #{failure.selector.position}{on_device}: CEL runtime error: {failure.text}"

    def _derived_text(self, subrequest: Subrequest, record: DeviceRecord) -> str:
        """The error of the first constraint's derived attribute that fails on the device."""
        for number in subrequest.sources:
            source = self._shape.sources[number]
            if source.derived is None:
                continue
            failure = self._matcher.derived.of(source.derived, record)
            if isinstance(failure, DerivedFailure):
                if failure.is_compile_error:
                    return f"compile derived attribute {source.attribute} failed: {failure.text}"
                return f"evaluate derived attribute {source.attribute} on device {record.id} failed: {failure.text}"
        raise AssertionError(f"no derived attribute of {subrequest.name} fails on {record.id}")


def _concerns(requests: tuple[str, ...], subrequest: Subrequest) -> bool:
    return subrequest.main in requests or subrequest.name in requests


def _for_all(entry: DeviceAllocationConfiguration, subrequests: list[Subrequest]) -> DeviceAllocationConfiguration:
    """The entry without request names if it applies to every request, as from 1.37."""
    if entry.requests and all(_concerns(entry.requests, subrequest) for subrequest in subrequests):
        return DeviceAllocationConfiguration(source=entry.source, opaque=entry.opaque)
    return entry


# --- node selector ---------------------------------------------------------------------------------------------------


def node_selector(view: NodeView, picks: tuple[Pick, ...]) -> NodeSelector | None:
    """The nodes that can use these devices: one node if any device is local to it or binds to it, otherwise the
    conjunction of the devices' selectors; ``None`` means all nodes."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for pick in picks:
        record = view.records[pick.slot]
        of = record.device if record.slice.spec.per_device_node_selection else record.slice.spec
        if of.node_name is not None or record.device.binds_to_node:
            return view.only_here
        if of.node_selector is not None:
            terms = of.node_selector.node_selector_terms
            if len(terms) > 1:
                raise UnsupportedNodeSelector(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
            for term in terms:
                _add_new(fields, term.match_fields)
                _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    return NodeSelector(
        node_selector_terms=(NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields)),)
    )


def _add_new(to: list[NodeSelectorRequirement], requirements: tuple[NodeSelectorRequirement, ...]) -> None:
    for new in requirements:
        if not any(
            new.key == old.key and new.operator == old.operator and set(new.values) == set(old.values) for old in to
        ):
            to.append(new)
