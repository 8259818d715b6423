"""What a replay is asked, as one value: pods, nodes, how much is to come; and its answer for a policy and a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from allotment.tools.replay.policies import POLICIES, Policy
from allotment.tools.replay.report import Mark, mark_of, marks_of
from allotment.tools.replay.simulation import run
from allotment.tools.replay.trace import TraceNode, TracePod
from allotment.tools.replay.workload import arrivals, by_time, capacity_of, workload_of

#: Part of every fingerprint: to be raised when the same question gets other figures than before.
_REVISION: Final = 1


@dataclass(frozen=True, slots=True)
class Question:
    """``share``: pods come until they ask for so much of the GPUs (1.3: 130 %). ``times``: instead they come and go as
    the trace says. ``prices``: USD per hour of a GPU by model; None if nobody asks what it costs.
    """

    pods: tuple[TracePod, ...]
    nodes: tuple[TraceNode, ...]
    share: float = 1.3
    times: bool = False
    prices: Mapping[str, Decimal] | None = field(default=None)

    @property
    def capacity(self) -> int:
        """GPUs of all nodes."""
        return capacity_of(self.nodes) // 1000

    def fingerprint(self) -> str:
        """What differs when anything differs that figures depend on."""
        prices = None if self.prices is None else sorted(self.prices.items())
        text = repr((_REVISION, self.pods, self.nodes, self.share, self.times, prices))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def policy_named(name: str) -> Policy | None:
    """The policy of a name."""
    return next((policy for policy in POLICIES if policy.name == name), None)


def answer(
    question: Question, policy: Policy, seed: int, progress: Callable[[Mark], None] | None = None
) -> tuple[Mark, ...]:
    """One run. ``progress`` is told of each mark as it comes."""
    workload = workload_of(question.pods)
    if question.times:
        events, shape_of = by_time(question.pods), workload.shape_of
    else:
        events, shape_of = arrivals(workload, capacity_of(question.nodes), question.share, seed)
    capacity, nodes = capacity_of(question.nodes), question.nodes
    tell = None if progress is None else lambda point: progress(mark_of(point, capacity))
    done = run(workload, shape_of, events, nodes, policy, seed, progress=tell)
    return marks_of(done, question.prices)
