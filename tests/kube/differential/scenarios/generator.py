"""The random generator of a scenario, and the settings of a scenario: a theme sets some of them, the others are
random."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from tests.kube.differential.scenarios.scenario import NAMESPACE, PRIVILEGED

DRIVERS: Final = ("gpu.example.com", "net.example.com", "fpga.test")
ZONES: Final = ("a", "b")
MODELS: Final = ("a", "b")
RESOURCE: Final = "resource.k8s.io/v1"
LANE: Final = "example.org/lane"
NUMA: Final = "resource.kubernetes.io/numaNode"
#: The number of constraints of a claim that has some.
CONSTRAINED: Final = (0, 0, 1, 1, 2)
TAINT: Final = {"key": "example.com/broken", "value": "yes"}


class ScenarioGenerator:
    """One scenario that is being generated. The devices of one driver are similar enough that claims nearly fit."""

    def __init__(self, random: Random, name: str) -> None:
        self.random = random
        self.name = name
        self.drivers = random.sample(DRIVERS, random.choice([1, 1, 2, 3]))
        self.classes = [f"{name}-any", *(f"{name}-{driver.partition('.')[0]}" for driver in self.drivers)]
        self.shareable = self.chance(0.3)
        self.partitioned = self.chance(0.3)
        self.all_attributes = self.chance(0.5)  # every device publishes every attribute, so that selectors do not fail
        self.nodes = [f"{name}-n{number}" for number in range(random.randint(2, 6))]
        self.extended = self.chance(0.2)
        self.device_plugins = self.extended and self.chance(0.4)  # some nodes have device plugins for the same resource
        self.crowded = self.chance(0.3)  # many pods that request little from a few nodes
        if self.crowded:
            self.nodes = self.nodes[: random.randint(1, 3)]
        self.namespace = PRIVILEGED if self.chance(0.1) else NAMESPACE
        #: The probability of admin access for requests in the privileged namespace.
        self.admin_chance = 0.4
        #: The probability of affinity between pods.
        self.affinity_chance = 0.08
        #: The range of random numbers.
        self.requests: Sequence[int] = (1, 1, 1, 1, 2, 2, 3)
        self.constraints: Sequence[int] = (0, 0, 0, 0, 1, 1, 2)
        self.claims: Sequence[int] = (1, 1, 1, 1, 1, 2, 2, 3)

    def chance(self, part: float) -> bool:
        """True with this probability."""
        return self.random.random() < part

    def prefix(self, driver: str) -> str:
        """The prefix for names of a driver's objects."""
        return driver.partition(".")[0]
