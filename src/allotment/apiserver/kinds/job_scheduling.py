"""``spec.scheduling`` of Jobs: rules that its types do not declare (KEP-5547, alpha in 1.37)."""

from __future__ import annotations

from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, invalid


def job_scheduling(spec: Tree, path: str) -> Errors:
    """Validate the scheduling of a JobSpec.

    A policy without a variant is basic. Of two variants, which the declared rules refuse, the first one counts.
    """
    scheduling: Tree = spec.get("scheduling") or {}
    policy, mode = (scheduling.get(name) or {} for name in ("schedulingPolicy", "disruptionMode"))
    count = (policy.get("gang") or {}).get("minCount")
    parallelism = 1 if spec.get("parallelism") is None else spec["parallelism"]
    if count is not None and count > parallelism:
        detail = f"must not be greater than parallelism ({parallelism})"
        yield invalid(f"{path}.scheduling.schedulingPolicy.gang.minCount", count, detail)
    is_basic = policy.get("basic") is not None or policy.get("gang") is None
    if is_basic and mode.get("single") is None and mode.get("all") is not None:
        detail = "the disruptionMode `all` is not supported with the Basic scheduling policy"
        yield invalid(f"{path}.scheduling.disruptionMode", "", detail)


def job_scheduling_update(after: Tree, before: Tree, path: str) -> Errors:
    """A Job keeps its kind of policy; the declared rules refuse all other changes but that of ``minCount``."""
    new, old = ((spec.get("scheduling") or {}).get("schedulingPolicy") for spec in (after, before))
    if new is not None and old is not None and (new.get("basic") is None) != (old.get("basic") is None):
        detail = (
            "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be "
            "updated"
        )
        yield invalid(f"{path}.scheduling.schedulingPolicy", None, detail)
