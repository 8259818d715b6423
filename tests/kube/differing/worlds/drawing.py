"""The dice, and what holds for a whole world: a theme sets some of it, chance the rest."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from tests.kube.differing.worlds.world import NAMESPACE, PRIVILEGED

DRIVERS: Final = ("gpu.example.com", "net.example.com", "fpga.test")
ZONES: Final = ("a", "b")
MODELS: Final = ("a", "b")
RESOURCE: Final = "resource.k8s.io/v1"
LANE: Final = "example.org/lane"
NUMA: Final = "resource.kubernetes.io/numaNode"
#: How many constraints a claim has where there are to be some.
CONSTRAINED: Final = (0, 0, 1, 1, 2)
TAINT: Final = {"key": "example.com/broken", "value": "yes"}


class Drawing:
    """One world that is being drawn. Devices of one driver are alike enough that claims nearly fit."""

    def __init__(self, random: Random, name: str) -> None:
        self.random = random
        self.name = name
        self.drivers = random.sample(DRIVERS, random.choice([1, 1, 2, 3]))
        self.classes = [f"{name}-any", *(f"{name}-{driver.partition('.')[0]}" for driver in self.drivers)]
        self.shareable = self.chance(0.3)
        self.partitioned = self.chance(0.3)
        self.whole = self.chance(0.5)  # every device publishes everything, so that selectors do not fail
        self.nodes = [f"{name}-n{number}" for number in range(random.randint(2, 6))]
        self.extended = self.chance(0.2)
        self.plugged = self.extended and self.chance(0.4)  # some nodes have device plugins for the same
        self.crowded = self.chance(0.3)  # many pods that want little of a few nodes
        if self.crowded:
            self.nodes = self.nodes[: random.randint(1, 3)]
        self.namespace = PRIVILEGED if self.chance(0.1) else NAMESPACE
        #: How often requests in the privileged namespace are for admin access.
        self.admin = 0.4
        #: How often pods mind each other.
        self.minding = 0.08
        #: Numbers that are drawn from.
        self.requests: Sequence[int] = (1, 1, 1, 1, 2, 2, 3)
        self.constraints: Sequence[int] = (0, 0, 0, 0, 1, 1, 2)
        self.claims: Sequence[int] = (1, 1, 1, 1, 1, 2, 2, 3)

    def chance(self, part: float) -> bool:
        """True so often."""
        return self.random.random() < part

    def prefix(self, driver: str) -> str:
        """A driver in the names of other things."""
        return driver.partition(".")[0]
