"""Claims are identified by uid, not by name."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS
from allotment.engine.cluster.inventory import Inventory
from allotment.model.resource import FINALIZER
from allotment.scheduler.binding.claim_writer import ClaimWriter
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.pod_groups import PodGroups
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.scheduler.world import FEATURES, NAMESPACE, claim, context_of


def test_a_recreated_claim_keeps_its_finalizer() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        context = context_of(client)
        ledger = ClaimLedger(Inventory(FEATURES))
        groups = PodGroups(context.caches, FEATURES, lambda event: None)
        claims = ClaimWriter(client, ledger, groups, FEATURES, context.clock, context.caches.trees(CLAIMS))
        seen = CachedClaim(client.put(*claim("made", uid="before", finalizers=[FINALIZER])), ledger.spec({}))
        client.remove(CLAIMS, NAMESPACE, "made")
        another = client.put(*claim("made", uid="after", finalizers=[FINALIZER]))
        assert await claims.delete(seen)
        assert client.objects[CLAIMS, NAMESPACE, "made"] == another

    idle.run(scenario())
