"""When people are told of a pod that is not even tried."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock, Timer
from allotment.cluster.recorder import Events
from allotment.model.meta import ObjectKey
from allotment.node_fit.pod_requirements import Demands
from allotment.scheduler.gated_pods import Held
from allotment.scheduler.pod_groups import Grouping
from allotment.scheduler.pods import Hold, WaitingPod
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.scheduler.world import FEATURES, NAMESPACE, pod

NOT_CREATED = Hold("not-created", "ResourceClaim not created yet", 0)


class _Called:
    def cancel(self) -> None:
        """Nobody does."""


class _Clock(Clock):
    """Its time goes on when somebody says so."""

    def __init__(self) -> None:
        super().__init__()
        self.next: Callable[[], None] | None = None

    def later(self, seconds: float, act: Callable[[], None]) -> Timer:
        self.next = act
        return _Called()

    def pass_on(self) -> None:
        assert self.next is not None
        act, self.next = self.next, None
        act()


class _Notes(Events):
    """Keeps what is noted."""

    def __init__(self) -> None:
        super().__init__(MemoryClient(), clock=Clock())
        self.said: list[str] = []

    def note(self, *words: object, **more: object) -> None:
        self.said.append(str(words[4]))


class _Story:
    def __init__(self, *templates: str) -> None:
        self.clock, self.notes = _Clock(), _Notes()
        self.claims: list[ObjectKey] = []
        caches = Caches(MemoryClient(), clock=self.clock, random=Random(1))
        known = [ObjectKey(NAMESPACE, template) for template in templates]
        self.held = Held(
            self.clock, self.notes.recorder("s"), lambda: self.claims, lambda: known,
            Grouping(caches, FEATURES, lambda happening: None),
        )  # fmt: skip
        _, tree = pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
        tree["metadata"]["uid"] = "uid-p"
        self.held.put(WaitingPod(tree, Demands().of(tree["spec"])), NOT_CREATED)

    def made(self) -> None:
        """The claim of some other pod."""
        self.claims.append(ObjectKey(NAMESPACE, f"c{len(self.claims)}"))


def test_nothing_is_told_while_claims_of_others_are_made() -> None:
    async def story() -> None:
        here = _Story("one")
        for _ in range(5):
            here.made()
            here.clock.pass_on()
        assert here.notes.said == []
        here.clock.pass_on()
        (text,) = here.notes.said
        assert text.startswith("the claim for gpu has not been made yet (template one)")
        assert here.clock.next is None

    idle.run(story())


def test_a_claim_that_does_not_come_is_told_of_however_many_others_do() -> None:
    async def story() -> None:
        here = _Story("one")
        for _ in range(31):
            here.made()
            here.clock.pass_on()
        assert len(here.notes.said) == 1

    idle.run(story())


def test_that_a_template_is_missing_is_told_at_once() -> None:
    async def story() -> None:
        here = _Story()
        here.made()
        here.clock.pass_on()
        (text,) = here.notes.said
        assert text.startswith('ResourceClaimTemplate "one" does not exist in namespace ns')

    idle.run(story())
