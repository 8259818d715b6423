"""Which modes of GPUs a plan has to think of beside whole ones: those that publish what some claim asks for.

A claim for a MIG device is served by GPUs that are cut, one for 10Gi of a GPU is better served by GPUs that are shared.
Nobody asked for anything else, so GPUs stay whole where no claim has any use for another mode. What was allowed by name
is thought of as soon as any claim could use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allotment.engine.claims.requests import Subrequest
from allotment.engine.cluster.layout import NodeView
from allotment.fleet.profiles import Accelerator
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.offerings.hypothetical_nodes import Stage, Steps
from allotment.tools.plan.offerings.templates import modes, sample, sample_name


class Modes:
    """The modes worth asking about, by model of GPU."""

    def __init__(self, stage: Stage, steps: Steps, limits: Limits, kube: str) -> None:
        self._stage = stage
        self._steps = steps
        self._limits = limits
        self._kube = kube
        self._known: dict[str, tuple[str, ...]] = {}

    def of(self, accelerator: Accelerator, shapes: Sequence[int]) -> tuple[str, ...]:
        """The modes of a model beside whole GPUs that concern any of these shapes."""
        found = self._known.get(accelerator.id)
        if found is None:
            found = self._known[accelerator.id] = tuple(self._worth(accelerator, shapes))
        return found

    def _worth(self, accelerator: Accelerator, shapes: Sequence[int]) -> Iterable[str]:
        whole = self._view(accelerator, "")
        if whole is None:
            return
        taken: set[tuple[int, int]] = set()
        for mode in self._candidates(accelerator):
            view = self._view(accelerator, mode)
            if view is None:
                continue
            served = {
                (shape, ask.number)
                for shape in shapes
                for ask in self._steps.work(self._stage, shape).shape.subrequests
                if self._concerns(view, whole, shape, ask)
            }
            # One way to serve a request is enough, unless others are allowed by name.
            if served - taken or (served and self._limits.modes):
                taken |= served
                yield mode

    def _candidates(self, accelerator: Accelerator) -> list[str]:
        wanted = self._limits.modes
        known = modes(accelerator)
        if not wanted:
            return [mode for mode in known if mode not in ("dynamic-mig", "auto")]
        exact = [mode for mode in wanted if "=" in mode and mode not in known]
        return [*(m for m in known if any(m == w or m.startswith((f"{w}=", f"{w}-")) for w in wanted)), *exact]

    def _view(self, accelerator: Accelerator, mode: str) -> NodeView | None:
        slices = sample(accelerator.id, mode, self._kube)
        if slices is None:
            return None
        return self._stage.put(sample_name(accelerator.id, mode), {}, lambda: slices)

    def _concerns(self, view: NodeView, whole: NodeView, shape: int, ask: Subrequest) -> bool:
        work = self._steps.work(self._stage, shape)
        suits = work.pattern(view).eligible[ask.number]
        if not suits:
            return False
        if self._limits.modes or not work.pattern(whole).eligible[ask.number]:
            return True
        # Whole GPUs would do, but a part of one is all that is asked.
        return bool(ask.capacity) and bool(suits & view.layout.shareable)
