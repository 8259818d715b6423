"""A cluster that was restored from a backup, whose objects reappear one after the other."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS
from tests.unit.cluster import idle
from tests.unit.scheduler.world import SchedulingClient, claim, device_class, gpus, node, pod, world


def test_no_device_is_allocated_twice_while_only_the_old_claims_are_known() -> None:
    async def scenario() -> None:
        client = SchedulingClient()
        objects = (node("a"), gpus("a", 2), device_class(), claim("both", count=2), claim("late"), pod("one", "both"))
        async with world(*objects, client=client) as lab:
            await lab.bound("one")
            restore = client.backup()
            lab.end("one")
            for number in range(100):  # the backup is older than these changes
                lab.put(*claim("other", labels={"number": str(number)}))
            lab.put(*pod("probe", "other"))
            await lab.bound("probe")  # so one of the two is known to be free
            client.silent.add(CLAIMS)
            restore()
            assert lab.devices("both") == ["gpu-0", "gpu-1"]
            lab.put(*pod("two", "late"))
            assert "the cluster was restored from a backup" in await lab.reported_message("two", "SchedulerError")
            assert not lab.node_of("two")
            client.silent.clear()
            await lab.reported_message("two")
            assert not lab.devices("late")
            lab.end("one")
            await lab.bound("two")

    idle.run(scenario())
