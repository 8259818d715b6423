"""V310: parameters that the driver refuses, or that no driver reads."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.engine.diagnosis.published_names import likeness
from allotment.model.editing.edits import Edit, RenameKey, SetValue
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.claims.parameters import Given, given_parameters
from allotment.tools.check.names.known_names import SLIP
from allotment.tools.check.rule import Fix, Found, Level, Rule
from allotment.tools.sentences import either, listed
from allotment.tools.views import at, mapping
from allotment.vocabulary.parameters import Problem, parameters_of


def _find(bundle: Bundle) -> Iterator[Found]:
    for given in given_parameters(bundle):
        unfit = False
        for problem in given.problems(bundle):
            if not problem.gate:
                unfit = unfit or problem.path in ((), ("apiVersion",), ("kind",))
                yield _wrong(given, problem)
        if not unfit:
            yield from _misplaced(bundle, given)


# --- by themselves -----------------------------------------------------------------------------------------------


def _wrong(given: Given, problem: Problem) -> Found:
    path = (*given.path, *problem.path)
    written = str(problem.path[-1]) if problem.key else str(at(given.tree, problem.path))
    fix = None
    if problem.near and not (problem.key and problem.near in mapping(at(given.tree, problem.path[:-1]))):
        edit: Edit = RenameKey(path, problem.near) if problem.key else SetValue(path, problem.near)
        # Kinds and fields are told apart by case, people are not.
        safe = problem.key and written.lower() == problem.near.lower()
        fix = Fix(f"write {problem.near}", ((given.document, edit),), safe=safe)
    return Found(
        given.document,
        path,
        f"{given.config.driver} refuses these parameters: {problem.place}: {problem.text}",
        help="the claim is allocated, and its pods then stay in ContainerCreating",
        fix=fix,
        level=_level(problem, written),
        key=problem.key,
    )


def _level(problem: Problem, written: str) -> Level:
    """A later release may know kinds and fields that this one does not; values it hardly takes otherwise."""
    if problem.key or problem.path in ((), ("apiVersion",), ("kind",)):
        return "error" if problem.near and likeness(written, problem.near) >= SLIP else "warning"
    return "error"


# --- for the devices of these requests -----------------------------------------------------------------------------


def _misplaced(bundle: Bundle, given: Given) -> Iterator[Found]:
    sorts = given.sorts(bundle)
    if not sorts or any(not sort.driver for sort in sorts):
        return
    driver = given.config.driver
    types = {sort.type for sort in sorts if sort.driver == driver}
    if not types:
        brought = listed(sorted({sort.driver for sort in sorts}))
        yield Found(
            given.document,
            (*given.config.path, "opaque", "driver"),
            f"nobody reads parameters for {driver} here: the devices are those of {brought}",
            level="warning",
        )
        return
    kind = str(given.tree.get("kind"))
    wanted = given.words.configs.get(f"{given.tree.get('apiVersion')}/{kind}")
    if not wanted or "" in wanted or not types.isdisjoint(wanted) or types == {""}:
        return
    refused = given.named or bool(given.class_name)
    outcome = f"{driver} refuses it" if refused else "it is passed over"
    yield Found(
        given.document,
        (*given.path, "kind"),
        f"{kind} is for devices of type {either(wanted)}, and these are of type {either(sorted(types))}: {outcome}",
        fix=_other_kind(bundle, given, types),
        level="error" if refused and driver == "gpu.nvidia.com" else "warning",
    )


def _other_kind(bundle: Bundle, given: Given, types: set[str]) -> Fix | None:
    """The kind for those devices, if the same parameters are some of that kind."""
    version = str(given.tree.get("apiVersion"))
    gates = bundle.settings.driver_gates.get(given.config.driver, {})
    for key, devices in given.words.configs.items():
        group, _, kind = key.rpartition("/")
        if group == version and types <= set(devices):
            tree = {**given.tree, "kind": kind}
            problems = parameters_of(given.config.driver, tree, gates, given.words.release)
            if all(problem.gate for problem in problems):
                edit = SetValue((*given.path, "kind"), kind)
                return Fix(f"use kind {kind}", ((given.document, edit),), safe=False)
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
    summary="parameters that the driver refuses, or that no driver reads",
    why=(
        "The API server takes parameters for drivers as they are; only the driver knows what they mean, and it reads "
        "them strictly when it prepares the claim (KEP-4381). What it refuses leaves the pod in ContainerCreating, "
        "with an event FailedPrepareDynamicResources. Parameters for a driver whose devices the claim cannot get are "
        "read by nobody."
    ),
    bad=examples.claim("shared-gpu", class_name="gpu.example.com", beside=_SHARING.format("Timeslicing")),
    good=examples.claim("shared-gpu", class_name="gpu.example.com", beside=_SHARING.format("TimeSlicing")),
    find=_find,
    fixable="safe or unsafe",
)
