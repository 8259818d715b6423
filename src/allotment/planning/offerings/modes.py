"""The GPU modes, besides whole GPUs, that a plan considers: those that publish devices for some claim.

A claim for a MIG device needs partitioned GPUs; a claim for 10Gi of a GPU fits better on shared GPUs. If no claim needs
another mode, GPUs stay whole. Modes that the limits allow by name are considered if any claim can use their devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allotment.engine.claims.requests import Subrequest
from allotment.engine.cluster.layout import NodeView
from allotment.fleet.profiles import Accelerator
from allotment.planning.limits import PlanLimits
from allotment.planning.offerings.hypothetical_nodes import ClaimShapes, HypotheticalCluster
from allotment.planning.offerings.templates import candidate_modes, sample_node_name, sample_slices
from allotment.time_limits import check_time


class RelevantModes:
    """The relevant modes by GPU model, cached."""

    def __init__(self, cluster: HypotheticalCluster, claim_shapes: ClaimShapes, limits: PlanLimits, kube: str) -> None:
        self._cluster = cluster
        self._claim_shapes = claim_shapes
        self._limits = limits
        self._kube = kube
        self._known: dict[str, tuple[str, ...]] = {}

    def of_accelerator(self, accelerator: Accelerator, shapes: Sequence[int]) -> tuple[str, ...]:
        """The modes of a GPU model, besides whole GPUs, that are relevant to any of these shapes."""
        found = self._known.get(accelerator.id)
        if found is None:
            found = self._known[accelerator.id] = tuple(self._find_relevant(accelerator, shapes))
        return found

    def _find_relevant(self, accelerator: Accelerator, shapes: Sequence[int]) -> Iterable[str]:
        whole = self._view(accelerator, "")
        if whole is None:
            return
        covered: set[tuple[int, int]] = set()
        for mode in self._candidates(accelerator):
            view = self._view(accelerator, mode)
            if view is None:
                continue
            matched = {
                (shape, subrequest.number)
                for shape in shapes
                for subrequest in self._claim_shapes.shape_cache(self._cluster, shape).shape.subrequests
                if self._is_relevant(view, whole, shape, subrequest)
            }
            # One mode for a request is enough, unless others are allowed by name.
            if matched - covered or (matched and self._limits.modes):
                covered |= matched
                yield mode

    def _candidates(self, accelerator: Accelerator) -> list[str]:
        allowed = self._limits.modes
        known = candidate_modes(accelerator)
        if not allowed:
            return [mode for mode in known if mode not in ("dynamic-mig", "auto")]
        exact = [mode for mode in allowed if "=" in mode and mode not in known]
        return [*(m for m in known if any(m == w or m.startswith((f"{w}=", f"{w}-")) for w in allowed)), *exact]

    def _view(self, accelerator: Accelerator, mode: str) -> NodeView | None:
        slices = sample_slices(accelerator.id, mode, self._kube)
        if slices is None:
            return None
        return self._cluster.view_of(sample_node_name(accelerator.id, mode), {}, lambda: slices)

    def _is_relevant(self, view: NodeView, whole: NodeView, shape: int, subrequest: Subrequest) -> bool:
        check_time()
        cache = self._claim_shapes.shape_cache(self._cluster, shape)
        eligible = cache.pattern(view).eligible[subrequest.number]
        if not eligible:
            return False
        if self._limits.modes or not cache.pattern(whole).eligible[subrequest.number]:
            return True
        # Whole GPUs satisfy the request, but it requests only a part of one.
        return bool(subrequest.capacity) and bool(eligible & view.layout.shareable)
