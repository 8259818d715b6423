"""Scores as the schedulers compared here give them: whole numbers from 0 to 100, so that near equals are equal.

It matters: of equals the first node is taken, which fills nodes one after the other. The published figures of the
policies beside which ours is measured come about with such scores.
"""

from __future__ import annotations

import numpy as np

from allotment.tools.replay.node_states import Floats


def cost(score: Floats) -> Floats:
    """What a score from 0 to 1 costs, when it is given in whole numbers up to 100.

    >>> cost(np.array([0.031, 0.039, 1.0])).tolist()
    [-3.0, -3.0, -100.0]
    """
    whole: Floats = -np.floor(100 * np.clip(score, 0, 1))
    return whole
