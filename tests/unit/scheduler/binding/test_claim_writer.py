"""A claim is the object that was seen, and not another one that has its name now."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS
from allotment.engine.cluster.inventory import Inventory
from allotment.model.resource import FINALIZER
from allotment.scheduler.binding.claim_writer import Claims
from allotment.scheduler.claim_ledger import KnownClaim, Ledger
from allotment.scheduler.pod_groups import Grouping
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.scheduler.world import FEATURES, NAMESPACE, claim, context_of


def test_one_that_took_the_name_of_a_claim_keeps_its_finalizer() -> None:
    async def story() -> None:
        client = MemoryClient()
        context = context_of(client)
        ledger = Ledger(Inventory(FEATURES))
        groups = Grouping(context.caches, FEATURES, lambda happening: None)
        claims = Claims(client, ledger, groups, FEATURES, context.clock, context.caches.trees(CLAIMS))
        seen = KnownClaim(client.put(*claim("made", uid="before", finalizers=[FINALIZER])), ledger.spec({}))
        client.remove(CLAIMS, NAMESPACE, "made")
        another = client.put(*claim("made", uid="after", finalizers=[FINALIZER]))
        assert await claims.delete(seen)
        assert client.objects[CLAIMS, NAMESPACE, "made"] == another

    idle.run(story())
