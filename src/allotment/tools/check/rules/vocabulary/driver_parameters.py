"""V310: parameters that the driver rejects, or that no driver reads."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.diagnosis.published_names import similarity
from allotment.model.editing.edits import Edit, RenameKey, SetValue
from allotment.phrases import either, listed
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.parameters import DriverParameters, driver_parameters
from allotment.tools.check.names.known_names import TYPO_SIMILARITY
from allotment.tools.check.rule import Fix, Level, Rule, RuleMatch
from allotment.tools.views import at, mapping
from allotment.vocabulary.parameters import ParameterProblem, parameter_problems


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    for parameters in driver_parameters(bundle):
        is_unknown_kind = False
        for problem in parameters.problems(bundle):
            if not problem.gate:
                is_unknown_kind = is_unknown_kind or problem.path in ((), ("apiVersion",), ("kind",))
                yield _report_problem(parameters, problem)
        if not is_unknown_kind:
            yield from _check_devices(bundle, parameters)


# --- validation --------------------------------------------------------------------------------------------------


def _report_problem(parameters: DriverParameters, problem: ParameterProblem) -> RuleMatch:
    path = (*parameters.path, *problem.path)
    written = str(problem.path[-1]) if problem.key else str(at(parameters.values, problem.path))
    fix = None
    if problem.near and not (problem.key and problem.near in mapping(at(parameters.values, problem.path[:-1]))):
        edit: Edit = RenameKey(path, problem.near) if problem.key else SetValue(path, problem.near)
        # A field that only differs in case is certain, because field names are case-sensitive.
        safe = problem.key and written.lower() == problem.near.lower()
        fix = Fix(f"write {problem.near}", ((parameters.document, edit),), safe=safe)
    return RuleMatch(
        parameters.document,
        path,
        f"{parameters.config.driver} rejects these parameters: {problem.location}: {problem.text}",
        help="the claim is allocated, but its pods stay in ContainerCreating",
        fix=fix,
        level=_level(problem, written),
        at_key=problem.key,
    )


def _level(problem: ParameterProblem, written: str) -> Level:
    """An error, but a warning for kinds and fields that a later release may know."""
    if problem.key or problem.path in ((), ("apiVersion",), ("kind",)):
        return "error" if problem.near and similarity(written, problem.near) >= TYPO_SIMILARITY else "warning"
    return "error"


# --- the requested devices -----------------------------------------------------------------------------------------


def _check_devices(bundle: Bundle, parameters: DriverParameters) -> Iterator[RuleMatch]:
    categories = parameters.device_categories(bundle)
    if not categories or any(not category.driver for category in categories):
        return
    driver = parameters.config.driver
    types = {category.type for category in categories if category.driver == driver}
    if not types:
        drivers = listed(sorted({category.driver for category in categories}))
        yield RuleMatch(
            parameters.document,
            (*parameters.config.path, "opaque", "driver"),
            f"parameters for {driver} are not read: the requested devices belong to {drivers}",
            level="warning",
        )
        return
    kind = str(parameters.values.get("kind"))
    supported = parameters.vocabulary.configs.get(f"{parameters.values.get('apiVersion')}/{kind}")
    if not supported or "" in supported or not types.isdisjoint(supported) or types == {""}:
        return
    is_rejected = parameters.names_requests or bool(parameters.class_name)
    outcome = f"{driver} rejects the parameters" if is_rejected else "the parameters are ignored"
    yield RuleMatch(
        parameters.document,
        (*parameters.path, "kind"),
        f"{kind} is for devices of type {either(supported)}, but the requested devices have type "
        f"{either(sorted(types))}: {outcome}",
        fix=_other_kind(bundle, parameters, types),
        level="error" if is_rejected and driver == "gpu.nvidia.com" else "warning",
    )


def _other_kind(bundle: Bundle, parameters: DriverParameters, types: set[str]) -> Fix | None:
    """The fix with the kind for the requested devices, if the same parameters are valid for it."""
    version = str(parameters.values.get("apiVersion"))
    gates = bundle.settings.driver_gates.get(parameters.config.driver, {})
    for key, devices in parameters.vocabulary.configs.items():
        group, _, kind = key.rpartition("/")
        if group == version and types <= set(devices):
            tree = {**parameters.values, "kind": kind}
            problems = parameter_problems(parameters.config.driver, tree, gates, parameters.vocabulary.release)
            if all(problem.gate for problem in problems):
                edit = SetValue((*parameters.path, "kind"), kind)
                return Fix(f"use kind {kind}", ((parameters.document, edit),), safe=False)
    return None


_SHARING = """\
config:
- requests: ["gpu"]
  opaque:
    driver: gpu.example.com
    parameters:
      apiVersion: gpu.resource.example.com/v1alpha1
      kind: GpuConfig
      sharing:
        strategy: {}
"""

RULE = Rule(
    code="V310",
    name="driver-parameters",
    family="vocabulary",
    level="error",
    summary="the driver rejects the parameters, or no driver reads them",
    why=(
        "The API server does not validate driver parameters; only the driver understands them, and it decodes them "
        "strictly when it prepares the claim (KEP-4381). If it rejects them, the pod stays in ContainerCreating, "
        "with the event FailedPrepareDynamicResources. Parameters are never read if the claim cannot get devices of "
        "their driver."
    ),
    bad=examples.claim("shared-gpu", class_name="gpu.example.com", devices_extra=_SHARING.format("Timeslicing")),
    good=examples.claim("shared-gpu", class_name="gpu.example.com", devices_extra=_SHARING.format("TimeSlicing")),
    find=_find,
    fixable="safe or unsafe",
)
