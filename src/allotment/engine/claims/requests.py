"""Compilation of a pod's claims: every request with its class, selectors and constraints.

An exact request has one ``Subrequest``; a ``firstAvailable`` list has one per alternative. Checks that need no node are
made here but not reported here: upstream validates claim by claim and request by request *on a node* and reports the
first problem in that order. A problem is therefore stored as a ``ClaimProblem`` with its claim or request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.cel import CompileError, Selector, compile_derived_attribute, compile_selector
from allotment.engine.claims.constraints import Constraint, DerivedExpression, ValueSource, constraint
from allotment.engine.outcome import AbortCause
from allotment.engine.release import Release, release
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

#: AllocationResultsMaxSize: devices in the result of one claim.
MAX_DEVICES_PER_CLAIM = 32


class ClaimProblem(NamedTuple):
    """A fatal problem of a claim. ``text`` follows ``claim <key>`` unless ``of_class`` is set."""

    cause: AbortCause
    text: str
    request: str | None = None
    of_class: bool = False

    def text_for(self, claim: object) -> str:
        """The error text for the claim with this name."""
        return self.text if self.of_class else f"claim {claim}{self.text}"


class BoundSelector(NamedTuple):
    """A selector of a class or request. ``compiled`` is the error if it does not compile, reported on first use."""

    expression: str
    of_class: str | None
    """The name of the class, or ``None`` for a selector of the request."""
    position: int
    compiled: Selector | CompileError


class Subrequest(NamedTuple):
    """An exact request, or one alternative of a ``firstAvailable`` list."""

    number: int
    """Position among all subrequests of the pod."""
    claim: int
    name: str
    """The name in allocation results: ``main`` or ``main/sub``."""
    own_name: str
    """The name in upstream's error texts: without the name of the main request."""
    main: str
    class_: DeviceClass | None
    selectors: tuple[BoundSelector, ...]
    all: bool
    """``allocationMode: All``"""
    device_count: int
    """Number of requested devices; 0 for ``All``."""
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, Quantity] | None
    constraints: tuple[int, ...]
    """Indexes of the pod's constraints that apply to its devices."""
    sources: tuple[int, ...]
    """For each of ``constraints`` the index of its values in ``ClaimShape.sources``."""
    problem: ClaimProblem | None


class CompiledRequest(NamedTuple):
    """A request: the first subrequest that can be satisfied is used."""

    name: str
    subrequests: tuple[Subrequest, ...]
    is_prioritized_list: bool
    """Whether the request has a ``firstAvailable`` list."""
    problem: ClaimProblem | None


class CompiledClaim(NamedTuple):
    """The requests of one claim, and the problem of its constraints, if any."""

    requests: tuple[CompiledRequest, ...]
    problem: ClaimProblem | None


class ClaimShape(NamedTuple):
    """The compiled requests of a pod's claims, without the claims' names."""

    claims: tuple[CompiledClaim, ...]
    subrequests: tuple[Subrequest, ...]
    constraints: tuple[Constraint, ...]
    """The constraints of all claims in order; ``Subrequest.constraints`` are indexes into them."""
    sources: tuple[ValueSource, ...]
    """The values that the constraints compare; ``Subrequest.sources`` are indexes into them."""
    release: Release


_Exact = ExactDeviceRequest | DeviceSubRequest


class ClaimCompiler:
    """Compiles claims and caches compiled selectors."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._release = release(features)
        self._selectors: dict[str, Selector | CompileError] = {}
        self._derived: dict[str, DerivedExpression] = {}

    def selector(self, expression: str) -> Selector | CompileError:
        """The compiled expression, or the error if it does not compile."""
        found = self._selectors.get(expression)
        if found is None:
            if len(self._selectors) >= 4096:
                self._selectors.clear()
            try:
                found = compile_selector(expression, self._features, env="stored")
            except CompileError as error:
                found = error
            self._selectors[expression] = found
        return found

    def derived(self, expression: str) -> DerivedExpression:
        """The compiled expression of a derived attribute."""
        found = self._derived.get(expression)
        if found is None:
            if len(self._derived) >= 4096:
                self._derived.clear()
            try:
                found = DerivedExpression(expression, compile_derived_attribute(expression, self._features))
            except CompileError as error:
                found = DerivedExpression(expression, error)
            self._derived[expression] = found
        return found

    def shape(self, claims: tuple[ResourceClaim, ...], classes: Mapping[str, DeviceClass]) -> ClaimShape:
        """The shape of the claims with the current classes."""
        subrequests: list[Subrequest] = []
        constraints: list[Constraint] = []
        sources: dict[ValueSource, int] = {}
        compiled: list[CompiledClaim] = []
        for number, claim in enumerate(claims):
            bound, problem = self._constraints(claim)
            requests = tuple(
                self._request(number, request, classes, subrequests, bound, len(constraints), sources)
                for request in claim.spec.devices.requests
            )
            constraints.extend(bound)
            compiled.append(CompiledClaim(requests, problem))
        return ClaimShape(
            tuple(compiled), tuple(subrequests), tuple(constraints), tuple(sources), release(self._features)
        )

    def _constraints(self, claim: ResourceClaim) -> tuple[list[Constraint], ClaimProblem | None]:
        bound: list[Constraint] = []
        for number, spec in enumerate(claim.spec.devices.constraints):
            found = constraint(spec)
            if found is None:
                why = f", constraint #{number}: empty constraint (unsupported constraint type?)"
                return bound, ClaimProblem(AbortCause.BAD_REQUEST, why)
            bound.append(found)
        return bound, None

    def _request(
        self,
        claim: int,
        request: DeviceRequest,
        classes: Mapping[str, DeviceClass],
        subrequests: list[Subrequest],
        constraints: list[Constraint],
        offset: int,
        sources: dict[ValueSource, int],
    ) -> CompiledRequest:
        is_prioritized_list = bool(request.first_available)
        specs: tuple[_Exact, ...] = request.first_available or (request.exactly or ExactDeviceRequest(),)
        problem = self._request_problem(request)
        compiled_subrequests = []
        for spec in specs:
            own_name = spec.name if isinstance(spec, DeviceSubRequest) else request.name
            name = f"{request.name}/{own_name}" if is_prioritized_list else own_name
            class_ = classes.get(spec.device_class_name)
            applying = [i for i, c in enumerate(constraints) if c.applies(request.name, name)]
            derived = self._derived_attributes(spec)
            of_request = [
                ValueSource(offset + i, constraints[i].attribute, derived.get(constraints[i].attribute))
                for i in applying
            ]
            subrequest = Subrequest(
                number=len(subrequests),
                claim=claim,
                name=name,
                own_name=own_name,
                main=request.name,
                class_=class_,
                selectors=self._bind(class_, spec.selectors),
                all=spec.allocation_mode == "All",
                device_count=spec.count if spec.allocation_mode != "All" else 0,
                admin=isinstance(spec, ExactDeviceRequest) and spec.admin_access is True,
                tolerations=spec.tolerations,
                capacity=spec.capacity.requests if spec.capacity is not None else None,
                constraints=tuple(offset + i for i in applying),
                sources=tuple(sources.setdefault(source, len(sources)) for source in of_request),
                problem=self._subrequest_problem(spec, own_name, class_),
            )
            subrequests.append(subrequest)
            compiled_subrequests.append(subrequest)
        return CompiledRequest(request.name, tuple(compiled_subrequests), is_prioritized_list, problem)

    def _derived_attributes(self, spec: _Exact) -> dict[str, DerivedExpression]:
        """The attributes that a request defines, by their full names; the last definition of a name counts."""
        if not spec.derived_attributes or not self._features.enabled("DRADerivedAttributes"):
            return {}
        return {attribute.name: self.derived(attribute.expression) for attribute in spec.derived_attributes}

    def _bind(self, class_: DeviceClass | None, own: tuple[DeviceSelector, ...]) -> tuple[BoundSelector, ...]:
        if class_ is None:
            return ()
        return tuple(
            BoundSelector(s.cel.expression, of_class, i, self.selector(s.cel.expression))
            for of_class, selectors in ((class_.metadata.name, class_.spec.selectors), (None, own))
            for i, s in enumerate(selectors)
            if s.cel is not None
        )

    def _request_problem(self, request: DeviceRequest) -> ClaimProblem | None:
        """The problem of a field whose feature is off (KEP-4816, KEP-5075)."""
        if request.first_available and not self._features.enabled("DRAPrioritizedList"):
            why = f", request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled"
            return ClaimProblem(AbortCause.FEATURE_OFF, why, request.name)
        if not self._features.enabled("DRAConsumableCapacity"):
            why = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            if request.exactly is not None and request.exactly.capacity is not None:
                return ClaimProblem(AbortCause.FEATURE_OFF, f", request {request.name}: {why}", request.name)
            for sub in request.first_available:
                if sub.capacity is not None:
                    return ClaimProblem(AbortCause.FEATURE_OFF, f", subrequest {sub.name}: {why}", request.name)
        return None

    def _subrequest_problem(self, spec: _Exact, own_name: str, class_: DeviceClass | None) -> ClaimProblem | None:
        def problem(cause: AbortCause, text: str) -> ClaimProblem:
            return ClaimProblem(cause, f", request {own_name}{text}", own_name)

        if spec.derived_attributes and self._release.refuses_disabled_fields:
            if not self._features.enabled("DRADerivedAttributes"):
                why = ": cannot handle request with derived attributes, the feature is disabled"
                return problem(AbortCause.FEATURE_OFF, why)
        for i, selector in enumerate(spec.selectors):
            if selector.cel is None:
                why = f", selector #{i}: CEL expression empty (unsupported selector type?)"
                return problem(AbortCause.BAD_REQUEST, why)
        admin = isinstance(spec, ExactDeviceRequest) and spec.admin_access is not None
        if admin and not self._features.enabled("DRAAdminAccess"):
            return problem(AbortCause.FEATURE_OFF, ": admin access is requested, but the feature is disabled")
        name = spec.device_class_name
        if not name:
            return problem(AbortCause.BAD_REQUEST, ": missing device class name (unsupported request type?)")
        if class_ is None:
            why = f': could not retrieve device class {name}: deviceclass.resource.k8s.io "{name}" not found'
            return problem(AbortCause.CLASS_MISSING, why)
        if spec.allocation_mode not in ("ExactCount", "All"):
            return problem(AbortCause.BAD_REQUEST, f": unsupported count mode {spec.allocation_mode}")
        return None
