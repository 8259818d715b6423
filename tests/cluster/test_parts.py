"""Building blocks of programs: leader election, events, snapshots, discovery."""

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
from tests.cluster.backends import Backend, ScenarioInput
from tests.cluster.objects import claim, pod
from tests.polling import until

#: Renewed every half second, with a lease duration that survives a loaded machine.
TERMS = LeaseTimings(lease=3000, renew=2000, retry=0.5)


def test_another_candidate_takes_over_the_lease(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        leading: list[str] = []

        def candidate(identity: str) -> LeaderElection:
            client = given.client if identity == "first" else given.other_client("other")
            return LeaderElection(
                client, "it", identity, clock=Clock(4), random=Random(), namespace=given.namespace, terms=TERMS
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

        elections = {identity: candidate(identity) for identity in ("first", "second")}
        first = lead("first")
        await until(lambda: leading == ["first"])
        second = lead("second")
        await until(lambda: elections["second"].holder == "first")
        assert leading == ["first"]
        first.cancel()
        await asyncio.wait([first])
        await elections["first"].release()
        await until(lambda: leading == ["second"])
        lease = await given.client.get(LEASES, "it", given.namespace)
        assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("second", 1)
        second.cancel()
        await asyncio.wait([second])

    backend.run(scenario)


def test_a_leader_that_lost_its_lease_stops(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        election = LeaderElection(
            given.client, "it", "first", clock=Clock(4), random=Random(), namespace=given.namespace, terms=TERMS
        )
        leads = asyncio.Event()

        async def lead() -> None:
            leads.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(election.lead(lead))
        await leads.wait()
        await given.client.patch(LEASES, "it", {"spec": {"holderIdentity": "second"}}, given.namespace)
        with pytest.raises(LeaseLost, match="second holds the Lease"):
            await task

    backend.run(scenario)


def test_events_are_written_and_counted(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        about = await given.client.create(PODS, pod("a"), given.namespace)
        events = Events(given.client, clock=Clock())
        running = asyncio.create_task(events.run())
        for _ in range(3):
            events.recorder("suite").event(about, "Warning", "Told", "something")
            await events.flush()
        running.cancel()
        await asyncio.wait([running])
        fields = "involvedObject.name=a,reason=Told"
        (event,) = (await given.client.list(EVENTS, given.namespace, fields=fields)).items
        assert (event["count"], event["message"], event["type"]) == (3, "something", "Warning")
        assert event["involvedObject"]["uid"] == about["metadata"]["uid"]

    backend.run(scenario)


def test_a_snapshot_has_all_requested_kinds(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        await given.client.create(PODS, pod("a"), given.namespace)
        await given.client.create(CLAIMS, claim("a"), given.namespace)
        found = await discover(given.client)
        taken = await snapshot.take_snapshot(given.client, found, (*snapshot.DEVICES, *snapshot.PODS), given.namespace)
        assert taken.refused == {}
        own_objects = [tree for tree in taken.objects if tree["metadata"].get("namespace") == given.namespace]
        assert sorted((tree["kind"], tree["apiVersion"]) for tree in own_objects) == [
            ("Pod", "v1"), ("ResourceClaim", "resource.k8s.io/v1"),
        ]  # fmt: skip
        assert all("managedFields" not in tree["metadata"] for tree in taken.objects)

    backend.run(scenario)


def test_resource_names_mean_the_same_as_in_kubectl(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        found = await discover(given.client)
        for word, resource in {
            "po": PODS, "pods": PODS, "Pod": PODS, "resourceclaims.v1.resource.k8s.io": CLAIMS,
            "deviceclass": DEVICE_CLASSES, "lease": LEASES, "ev": EVENTS,
        }.items():  # fmt: skip
            served = found.by_word(word)
            assert served is not None, word
            assert served.resource == resource
        assert found.by_word("unicorn") is None
        assert {"list", "watch", "create"} <= set(next(iter(found.versions_of("", "pods"))).verbs)

    backend.run(scenario)


def test_programs_that_use_v1_are_served_on_older_versions(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        client = NegotiatingClient(given.client)
        await client.versions.check_device_api()
        created = await client.create(CLAIMS, claim("a"), given.namespace)
        stored = await given.client.get(CLAIMS, "a", given.namespace)
        owners = stored["metadata"]["managedFields"]
        assert created == {**stored, "metadata": created["metadata"]}
        assert stored["metadata"] == {**created["metadata"], "managedFields": owners}
        await client.update(CLAIMS, {**created, "metadata": {**created["metadata"], "annotations": {"a": "b"}}})
        stored = await given.client.get(CLAIMS, "a", given.namespace)
        assert len(stored["metadata"]["managedFields"]) == len(owners), "a write without them keeps them"
        older = CLAIMS._replace(version="v1beta1")
        served = (await discover(given.client)).by_type("resource.k8s.io/v1beta1", "ResourceClaim")
        if served is not None:
            (request,) = (await client.get(older, "a", given.namespace))["spec"]["devices"]["requests"]
            assert request["deviceClassName"] == "gpu.example.com"

    backend.run(scenario)
