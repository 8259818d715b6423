"""First-fit: the first node that will do, and on it the first GPUs, as Kubernetes' allocator takes them."""

from __future__ import annotations

import numpy as np

from allotment.tools.replay.node_states import Floats
from allotment.tools.replay.policies.policy import Candidates, Judge, Policy, Setting
from allotment.tools.replay.workload import Shape


def equal(_: Setting) -> Judge:
    """All are equally good."""

    def judge(_: Shape, candidates: Candidates) -> Floats:
        return np.zeros(len(candidates.state))

    return judge


FIRST_FIT = Policy("first-fit", "the first node and the first GPUs that will do", equal, ordered=True)
