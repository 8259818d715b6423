"""Events of pods that are not attempted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock, Timer
from allotment.cluster.recorder import Events
from allotment.explanation.further_changes import AfterChange
from allotment.model.core import PodResourceClaim
from allotment.model.meta import ObjectKey
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.scheduler.gated_pods import GatedPods
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import HoldReason, QueuedPod
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.scheduler.world import FEATURES, NAMESPACE, pod

NOT_CREATED = HoldReason("not-created", "ResourceClaim not created yet", 0)


class _FakeTimer:
    def __init__(self, clock: _Clock) -> None:
        self._clock = clock

    def cancel(self) -> None:
        self._clock.next = None


class _Clock(Clock):
    """A clock whose last timer fires on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.next: Callable[[], None] | None = None

    def later(self, seconds: float, act: Callable[[], None]) -> Timer:
        self.next = act
        return _FakeTimer(self)

    def fire(self) -> None:
        assert self.next is not None
        act, self.next = self.next, None
        act()


class _RecordingEvents(Events):
    """Records the notes of events."""

    def __init__(self) -> None:
        super().__init__(MemoryClient(), clock=Clock())
        self.notes: list[str] = []

    def note(self, *words: object, **more: object) -> None:
        self.notes.append(str(words[4]))


class _Fixture:
    def __init__(self, *templates: str) -> None:
        self.clock, self.notes = _Clock(), _RecordingEvents()
        self.claims: list[ObjectKey] = []
        caches = Caches(MemoryClient(), clock=self.clock, random=Random(1))
        self.templates = [ObjectKey(NAMESPACE, template) for template in templates]
        self.gated = GatedPods(
            self.clock, self.notes.recorder("s"), lambda: self.claims, lambda: self.templates,
            PodGroups(caches, FEATURES, lambda event: None), self._after_entries,
        )  # fmt: skip
        self.trials = 0
        self._demands = PodRequirementsCache()
        self.put("p")

    def put(self, name: str) -> None:
        """Add a pod that waits for its claim."""
        _, tree = pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
        tree["metadata"]["uid"] = f"uid-{name}"
        self.gated.put(QueuedPod(tree, self._demands.of(tree["spec"])), NOT_CREATED)

    def _after_entries(self, pod: QueuedPod, entries: Sequence[PodResourceClaim]) -> AfterChange:
        self.trials += 1
        return AfterChange("n1")

    def create_other_claim(self) -> None:
        """Add the claim of some other pod."""
        self.claims.append(ObjectKey(NAMESPACE, f"c{len(self.claims)}"))


def test_nothing_is_reported_while_other_claims_are_created() -> None:
    async def scenario() -> None:
        lab = _Fixture("one")
        for _ in range(5):
            lab.create_other_claim()
            lab.clock.fire()
        assert lab.notes.notes == []
        lab.clock.fire()
        (text,) = lab.notes.notes
        assert text.startswith("the claim for gpu has not been created yet (template one)")
        lab.create_other_claim()
        lab.clock.fire()  # the event is written again, because the API server would delete it
        lab.clock.fire()  # after the delay
        assert lab.notes.notes == [text, text]
        lab.gated.forget("uid-p")
        assert lab.clock.next is None

    idle.run(scenario())


def test_a_missing_claim_is_eventually_reported_despite_new_claims() -> None:
    async def scenario() -> None:
        lab = _Fixture("one")
        for _ in range(31):
            lab.create_other_claim()
            lab.clock.fire()
        assert len(lab.notes.notes) == 1

    idle.run(scenario())


def test_equal_pods_try_a_change_once() -> None:
    async def scenario() -> None:
        lab = _Fixture("ones")
        lab.clock.fire()
        lab.put("q")
        lab.clock.fire()
        assert lab.trials == 1
        first, second = lab.notes.notes
        assert "to make it fit on n1: use ones" in first
        assert ("Pod ns/p" in first, "Pod ns/q" in second) == (True, True)

    idle.run(scenario())


def test_a_repeated_event_advises_only_what_still_helps() -> None:
    async def scenario() -> None:
        lab = _Fixture("ones")
        lab.clock.fire()
        lab.templates.clear()
        lab.clock.fire()  # half an hour later
        lab.clock.fire()
        first, second = lab.notes.notes
        assert "use ones" in first
        assert "ones" not in second

    idle.run(scenario())


def test_a_missing_template_is_reported_immediately() -> None:
    async def scenario() -> None:
        lab = _Fixture()
        lab.create_other_claim()
        lab.clock.fire()
        (text,) = lab.notes.notes
        assert text.startswith('ResourceClaimTemplate "one" does not exist in namespace ns')

    idle.run(scenario())
