"""What programs are built of: leader election, events, snapshots, discovery."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from allotment.cluster.clock import Clock
from allotment.cluster.inspection import snapshot
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.leader_election import LeaderElection, LeaseLost, LeaseTimings
from allotment.cluster.recorder import Events
from allotment.cluster.remote.version_negotiation import NegotiatingClient
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, EVENTS, LEASES, PODS
from tests.cluster.backends import Backend, Here
from tests.cluster.objects import claim, pod
from tests.waiting import until

#: Renewed each half second, and not lost where nothing gets to run for a while.
TERMS = LeaseTimings(lease=3000, renew=2000, retry=0.5)


def test_one_leads_and_another_takes_over(backend: Backend) -> None:
    async def story(here: Here) -> None:
        leading: list[str] = []

        def stands(identity: str) -> LeaderElection:
            client = here.client if identity == "first" else here.other("other")
            return LeaderElection(
                client, "it", identity, clock=Clock(4), random=Random(), namespace=here.namespace, terms=TERMS
            )

        def lead(identity: str) -> asyncio.Task[None]:
            async def leads() -> None:
                assert leading == []
                leading.append(identity)
                try:
                    await asyncio.Event().wait()
                finally:
                    leading.remove(identity)

            return asyncio.create_task(elections[identity].run(leads))

        elections = {identity: stands(identity) for identity in ("first", "second")}
        first = lead("first")
        await until(lambda: leading == ["first"])
        second = lead("second")
        await until(lambda: elections["second"].holder == "first")
        assert leading == ["first"]
        first.cancel()
        await asyncio.wait([first])
        await elections["first"].release()
        await until(lambda: leading == ["second"])
        lease = await here.client.get(LEASES, "it", here.namespace)
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("second", 1)
        second.cancel()
        await asyncio.wait([second])

    backend.run(story)


def test_a_leader_whose_lease_another_has_stops(backend: Backend) -> None:
    async def story(here: Here) -> None:
        election = LeaderElection(
            here.client, "it", "first", clock=Clock(4), random=Random(), namespace=here.namespace, terms=TERMS
        )
        leads = asyncio.Event()

        async def lead() -> None:
            leads.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(election.lead(lead))
        await leads.wait()
        await here.client.patch(LEASES, "it", {"spec": {"holderIdentity": "second"}}, here.namespace)
        with pytest.raises(LeaseLost, match="second holds the Lease"):
            await task

    backend.run(story)


def test_events_are_written_and_counted(backend: Backend) -> None:
    async def story(here: Here) -> None:
        about = await here.client.create(PODS, pod("a"), here.namespace)
        events = Events(here.client, clock=Clock())
        running = asyncio.create_task(events.run())
        for _ in range(3):
            events.recorder("suite").event(about, "Warning", "Told", "something")
            await events.flush()
        running.cancel()
        await asyncio.wait([running])
        fields = "involvedObject.name=a,reason=Told"
        (event,) = (await here.client.list(EVENTS, here.namespace, fields=fields)).items
        assert (event["count"], event["message"], event["type"]) == (3, "something", "Warning")
        assert event["involvedObject"]["uid"] == about["metadata"]["uid"]

    backend.run(story)


def test_a_snapshot_has_all_that_was_wanted(backend: Backend) -> None:
    async def story(here: Here) -> None:
        await here.client.create(PODS, pod("a"), here.namespace)
        await here.client.create(CLAIMS, claim("a"), here.namespace)
        found = await discover(here.client)
        taken = await snapshot.take_snapshot(here.client, found, (*snapshot.DEVICES, *snapshot.PODS), here.namespace)
        assert taken.refused == {}
        mine = [tree for tree in taken.objects if tree["metadata"].get("namespace") == here.namespace]
        assert sorted((tree["kind"], tree["apiVersion"]) for tree in mine) == [
            ("Pod", "v1"), ("ResourceClaim", "resource.k8s.io/v1"),
        ]  # fmt: skip
        assert all("managedFields" not in tree["metadata"] for tree in taken.objects)

    backend.run(story)


def test_words_mean_what_they_mean_to_kubectl(backend: Backend) -> None:
    async def story(here: Here) -> None:
        found = await discover(here.client)
        for word, resource in {
            "po": PODS, "pods": PODS, "Pod": PODS, "resourceclaims.v1.resource.k8s.io": CLAIMS,
            "deviceclass": DEVICE_CLASSES, "lease": LEASES, "ev": EVENTS,
        }.items():  # fmt: skip
            served = found.by_word(word)
            assert served is not None, word
            assert served.resource == resource
        assert found.by_word("unicorn") is None
        assert {"list", "watch", "create"} <= set(next(iter(found.versions_of("", "pods"))).verbs)

    backend.run(story)


def test_programs_that_speak_v1_are_understood(backend: Backend) -> None:
    async def story(here: Here) -> None:
        client = NegotiatingClient(here.client)
        await client.versions.check_device_api()
        made = await client.create(CLAIMS, claim("a"), here.namespace)
        stored = await here.client.get(CLAIMS, "a", here.namespace)
        owners = stored["metadata"]["managedFields"]
        assert made == {**stored, "metadata": made["metadata"]}
        assert stored["metadata"] == {**made["metadata"], "managedFields": owners}
        await client.update(CLAIMS, {**made, "metadata": {**made["metadata"], "annotations": {"a": "b"}}})
        stored = await here.client.get(CLAIMS, "a", here.namespace)
        assert len(stored["metadata"]["managedFields"]) == len(owners), "a write without them forgets nobody"
        older = CLAIMS._replace(version="v1beta1")
        served = (await discover(here.client)).by_type("resource.k8s.io/v1beta1", "ResourceClaim")
        if served is not None:
            (request,) = (await client.get(older, "a", here.namespace))["spec"]["devices"]["requests"]
            assert request["deviceClassName"] == "gpu.example.com"

    backend.run(story)
