"""Preparing and unpreparing claims, and the errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from allotment.cdi.store import MemoryStore
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CLAIMS
from allotment.drivers.device_values import InvalidDevice
from allotment.drivers.driver import DeviceEvent, DevicePool, DevicesChanged, HealthUpdate
from allotment.drivers.host import MemoryStorage
from allotment.drivers.publishing.slice_builder import InvalidPool, build_slices
from allotment.kubelet_plugin.messages import ClaimRef, PluginCallError, PreparedDevice
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity, DeviceTaint
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import DRIVER, NODE, FakeDriver, memory_host, node_driver, opaque, put_claim


def test_a_prepared_claim_has_a_cdi_file_and_ids_for_its_request() -> None:
    async def main() -> None:
        client, driver, host = MemoryClient(), FakeDriver(), memory_host()
        ref = put_claim(client, "c", "gpu/big=gpu-3")
        plugin = node_driver(driver, host, client)
        answer = (await plugin.prepare([ref]))[ref.uid]
        assert answer.error == ""
        assert answer.devices == (PreparedDevice(("gpu",), NODE, "gpu-3", (f"k8s.{DRIVER}/claim={ref.uid}-gpu-3",)),)
        spec = host.cdi.read(f"k8s.{DRIVER}-claim_{ref.uid}")
        assert spec is not None
        assert spec.container_edits.env == ("ALL=1",)
        assert [(d.name, d.container_edits.env) for d in spec.devices] == [(f"{ref.uid}-gpu-3", ("GPU_gpu-3=1",))]
        assert driver.in_use == {"gpu-3": ref.uid}

    idle.run(main())


def test_a_repeated_prepare_returns_the_stored_answer_without_the_api() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        ref = put_claim(client, "c", "gpu-0", "gpu-1")
        plugin = node_driver(driver, memory_host(), client)
        first = await plugin.prepare([ref])
        await plugin.wait_idle()
        client.refuse.append(Unreachable("away"))
        assert await plugin.prepare([ref]) == first
        assert driver.calls == [f"prepare {ref.uid}"]

    idle.run(main())


def test_unprepare_undoes_everything_without_the_api() -> None:
    async def main() -> None:
        client, driver, host = MemoryClient(), FakeDriver(), memory_host()
        ref = put_claim(client, "c", "gpu-0")
        plugin = node_driver(driver, host, client)
        await plugin.prepare([ref])
        await plugin.wait_idle()
        client.remove(CLAIMS, "shop", "c")
        client.refuse.extend(Unreachable("away") for _ in range(9))
        assert await plugin.unprepare([ref]) == {ref.uid: ""}
        assert driver.in_use == {}
        assert host.cdi.names() == frozenset()
        assert await plugin.unprepare([ref, ClaimRef("shop", "never-seen", "x")]) == {ref.uid: "", "never-seen": ""}

    idle.run(main())


def test_every_claim_is_answered_independently() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        good = put_claim(client, "good", "gpu-0")
        bare = client.put(CLAIMS, {"metadata": {"namespace": "shop", "name": "bare"}, "spec": {}})
        refs = [
            good,
            ClaimRef("shop", "gone-1", "gone"),
            ClaimRef("shop", "old-uid", "good"),
            ClaimRef("shop", bare["metadata"]["uid"], "bare"),
        ]
        answers = await node_driver(driver, memory_host(), client).prepare(refs)
        never = " (permanent error)"
        assert [answers[ref.uid].error for ref in refs] == [
            "",
            f"claim shop/gone: the claim no longer exists{never}",
            f"claim shop/good: the claim was replaced: expected UID old-uid, found {good.uid}{never}",
            "claim shop/bare: the claim is not allocated",
        ]

    idle.run(main())


def test_a_call_with_too_many_claims_is_refused() -> None:
    async def main() -> None:
        plugin = node_driver(FakeDriver(), memory_host(), MemoryClient())
        refs = [ClaimRef("shop", f"uid-{number}", "never-seen") for number in range(1001)]
        for call in (plugin.prepare, plugin.unprepare):
            with pytest.raises(PluginCallError, match=r"^expected at most 1000 claims in a call, found 1001$"):
                await call(refs)
        assert set((await plugin.unprepare(refs[1:])).values()) == {""}

    idle.run(main())


def test_a_call_with_many_claims_reads_only_some_at_a_time() -> None:
    async def main() -> None:
        reading = most = 0

        class SlowClient(MemoryClient):
            async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
                nonlocal reading, most
                reading += 1
                most = max(most, reading)
                await asyncio.sleep(1)
                reading -= 1
                return await super().get(resource, name, namespace, subresource=subresource)

        plugin = node_driver(FakeDriver(), memory_host(), SlowClient())
        answers = await plugin.prepare([ClaimRef("shop", f"uid-{number}", "gone") for number in range(500)])
        assert len(answers) == 500
        assert most == 32

    idle.run(main())


def test_results_of_other_drivers_are_ignored() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        ref = put_claim(client, "c", "gpu-0")
        tree = client.objects[CLAIMS, "shop", "c"]
        other = {"request": "nic", "driver": "nic.test", "pool": "elsewhere", "device": "nic-0"}
        tree["status"]["allocation"]["devices"]["results"].append(other)
        answer = (await node_driver(driver, memory_host(), client).prepare([ref]))[ref.uid]
        assert [device.device for device in answer.devices] == ["gpu-0"]
        foreign = put_claim(client, "foreign", "nic-0", driver="nic.test")
        assert (await node_driver(driver, memory_host(), client).prepare([foreign]))[foreign.uid].devices == ()

    idle.run(main())


def test_a_device_of_another_node_is_rejected() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        ref = put_claim(client, "c", "gpu-0")
        client.objects[CLAIMS, "shop", "c"]["status"]["allocation"]["devices"]["results"][0]["pool"] = "n2"
        plugin = node_driver(driver, memory_host(), client)
        await plugin.discover_pools()
        error = (await plugin.prepare([ref]))[ref.uid].error
        assert "device n2/gpu-0 is not on this node: gpu.test on n1 has pool n1" in error

    idle.run(main())


def test_a_device_has_one_owner_except_for_admin_access_and_shares() -> None:
    async def main() -> None:
        client, driver, host = MemoryClient(), FakeDriver(), memory_host()
        plugin = node_driver(driver, host, client)
        owner = put_claim(client, "owner", "gpu-0")
        second = put_claim(client, "second", "gpu-0")
        answers = await plugin.prepare([owner, second])
        assert answers[owner.uid].error == ""
        assert (
            f"device n1/gpu-0 is being prepared or unprepared for claim shop/owner ({owner.uid})"
            in answers[second.uid].error
        )
        again = (await plugin.prepare([second]))[second.uid].error
        assert f"device n1/gpu-0 is still prepared for claim shop/owner ({owner.uid})" in again
        admin = put_claim(client, "admin", "gpu-0", adminAccess=True)
        assert (await plugin.prepare([admin]))[admin.uid].error == ""
        shares = [put_claim(client, f"s{n}", "gpu-1", shareID=f"share-{n}") for n in range(2)]
        for n, answer in enumerate((await plugin.prepare(shares)).values()):
            assert answer.devices[0].share_id == f"share-{n}"
            assert answer.devices[0].cdi_ids[0].endswith(f"-gpu-1-share-{n}")
        whole = put_claim(client, "whole", "gpu-1")
        assert "device n1/gpu-1 is still prepared" in (await plugin.prepare([whole]))[whole.uid].error
        await plugin.unprepare([owner])
        assert (await plugin.prepare([second]))[second.uid].error == ""

    idle.run(main())


def test_admin_access_in_the_same_claim_does_not_hide_an_exclusive_use() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        owner, both = put_claim(client, "owner", "gpu-0"), put_claim(client, "both", "gpu-0", "monitor=gpu-0")
        client.objects[CLAIMS, "shop", "both"]["status"]["allocation"]["devices"]["results"][1]["adminAccess"] = True
        plugin = node_driver(driver, memory_host(), client)
        await plugin.prepare([owner])
        assert "is still prepared for claim shop/owner" in (await plugin.prepare([both]))[both.uid].error

    idle.run(main())


def test_admin_access_changes_nothing_on_the_device() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        wrong = opaque({"apiVersion": "test/v1", "kind": "Mode", "nonsense": 1})
        ref = put_claim(client, "c", "gpu-0", config=[wrong], adminAccess=True)
        assert (await node_driver(driver, memory_host(), client).prepare([ref]))[ref.uid].error == ""
        assert driver.planned[0].devices[0].admin_access
        assert driver.planned[0].devices[0].config is None

    idle.run(main())


def test_errors_in_parameters_are_permanent() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        wrong = opaque({"apiVersion": "test/v1", "kind": "Mode", "sharecount": 2}, "gpu")
        ref = put_claim(client, "c", "gpu-0", config=[wrong])
        error = (await node_driver(driver, memory_host(), client).prepare([ref]))[ref.uid].error
        assert error == (
            'claim shop/c: config[0] (of the claim): sharecount: unknown field of Mode; did you mean "shareCount"? '
            "(permanent error)"
        )
        assert driver.calls == []

    idle.run(main())


def test_a_failed_preparation_is_undone() -> None:
    async def main() -> None:
        client, driver, host = MemoryClient(), FakeDriver(), memory_host()
        driver.fail_at = {"prepare"}
        ref = put_claim(client, "c", "gpu-0")
        plugin = node_driver(driver, host, client)
        assert (await plugin.prepare([ref]))[ref.uid].error == "claim shop/c: gpu-0: does not start"
        assert driver.in_use == {}
        assert driver.calls == [f"prepare {ref.uid}", f"unprepare {ref.uid}"]
        driver.fail_at = set()
        assert (await plugin.prepare([ref]))[ref.uid].error == ""

    idle.run(main())


def test_a_failed_undo_is_retried_before_the_next_attempt() -> None:
    async def main() -> None:
        client, driver, host = MemoryClient(), FakeDriver(), memory_host()
        driver.fail_at = {"prepare", "unprepare"}
        ref = put_claim(client, "c", "gpu-0")
        plugin = node_driver(driver, host, client)
        await plugin.prepare([ref])
        assert driver.in_use == {"gpu-0": ref.uid}
        assert await plugin.unprepare([ref]) == {ref.uid: "claim shop/c: bus error"}
        driver.fail_at = set()
        driver.calls.clear()
        assert (await plugin.prepare([ref]))[ref.uid].error == ""
        assert driver.calls == [f"unprepare {ref.uid}", f"prepare {ref.uid}"]

    idle.run(main())


def test_a_full_disk_rejects_a_claim_and_leaves_no_entry() -> None:
    class FullStorage(MemoryStorage):
        full = True

        async def save(self, data: bytes) -> None:
            if self.full:
                raise OSError(28, "No space left on device")
            await super().save(data)

    async def main() -> None:
        client, driver, storage = MemoryClient(), FakeDriver(), FullStorage()
        plugin = node_driver(driver, memory_host(storage=storage), client)
        ref = put_claim(client, "c", "gpu-0")
        assert "cannot write the driver's checkpoint" in (await plugin.prepare([ref]))[ref.uid].error
        assert driver.calls == []
        storage.full = False
        assert (await plugin.prepare([ref]))[ref.uid].error == ""

    idle.run(main())


def test_work_continues_when_the_kubelet_hangs_up_and_the_next_call_returns_the_result() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        driver.gate = asyncio.Event()
        ref = put_claim(client, "c", "gpu-0")
        plugin = node_driver(driver, memory_host(), client)
        call = asyncio.create_task(plugin.prepare([ref]))
        await asyncio.sleep(0.01)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        again = asyncio.create_task(plugin.prepare([ref]))
        await asyncio.sleep(0.01)
        assert not again.done()
        driver.gate.set()
        assert (await again)[ref.uid].error == ""
        assert driver.calls == [f"prepare {ref.uid}"]

    idle.run(main())


def test_a_prepare_that_waited_for_an_unprepare_is_rejected() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        ref = put_claim(client, "c", "gpu-0")
        plugin = node_driver(driver, memory_host(), client)
        driver.gate = asyncio.Event()
        first = asyncio.create_task(plugin.prepare([ref]))
        await asyncio.sleep(0.01)
        undo = asyncio.create_task(plugin.unprepare([ref]))
        await asyncio.sleep(0.01)
        late = asyncio.create_task(plugin.prepare([ref]))
        await asyncio.sleep(0.01)
        driver.gate.set()
        await first
        assert await undo == {ref.uid: ""}
        assert "was unprepared while this call was waiting" in (await late)[ref.uid].error
        assert driver.in_use == {}
        # Another pod may use the claim afterwards.
        assert (await plugin.prepare([ref]))[ref.uid].error == ""

    idle.run(main())


def test_an_unprepared_claim_without_reservation_is_not_prepared_again() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        ref = put_claim(client, "c", "gpu-0", reserved=False)
        plugin = node_driver(driver, memory_host(), client)
        assert (await plugin.prepare([ref]))[ref.uid].error == ""
        await plugin.unprepare([ref])
        assert "was unprepared and is not reserved for any pod" in (await plugin.prepare([ref]))[ref.uid].error
        assert driver.in_use == {}

    idle.run(main())


def test_a_driver_gets_the_plans_of_other_claims() -> None:
    async def main() -> None:
        client, driver = MemoryClient(), FakeDriver()
        plugin = node_driver(driver, memory_host(), client)
        first, second = put_claim(client, "a", "gpu-0"), put_claim(client, "b", "gpu-1")
        await plugin.prepare([first])
        await plugin.prepare([second])
        assert driver.planned[1].other_plans == ({"claim": first.uid, "gpus": ["gpu-0"]},)

    idle.run(main())


def test_the_device_status_is_written_to_the_claim() -> None:
    applied: list[tuple[Any, ...]] = []

    class Recording(MemoryClient):
        async def patch(self, resource: Any, name: str, patch: Any, namespace: str = "", **more: Any) -> Any:
            applied.append((resource.plural, name, namespace, patch, more))
            if len(applied) == 1:
                raise Unreachable("away")
            return {}

    async def main() -> None:
        client, driver = Recording(), FakeDriver()
        ref = put_claim(client, "c", "gpu-0")
        plugin = node_driver(driver, memory_host(), client)
        plugin._clock.speed = 1000.0
        assert (await plugin.prepare([ref]))[ref.uid].error == ""
        await plugin.wait_idle()
        assert len(applied) == 2
        plural, name, namespace, tree, more = applied[1]
        assert (plural, name, namespace) == ("resourceclaims", "c", "shop")
        assert more == {"kind": "apply", "subresource": "status", "force": True}
        assert tree["metadata"]["uid"] == ref.uid
        (device,) = tree["status"]["devices"]
        assert device["data"] == {"uuid": "GPU-gpu-0"}
        assert [(condition["type"], condition["status"]) for condition in device["conditions"]] == [("Ready", "True")]
        applied.clear()
        silent = node_driver(FakeDriver(), memory_host(), client, status=False)
        await silent.prepare([ref])
        await silent.wait_idle()
        assert applied == []

    idle.run(main())


@pytest.mark.parametrize("code", [403, 409])
def test_a_rejected_status_affects_nothing_else(code: int) -> None:
    class Forbidding(MemoryClient):
        async def patch(self, *_: Any, **__: Any) -> Any:
            raise StatusError({"code": code, "message": "no"})

    async def main() -> None:
        client = Forbidding()
        ref = put_claim(client, "c", "gpu-0")
        plugin = node_driver(FakeDriver(), memory_host(), client)
        assert (await plugin.prepare([ref]))[ref.uid].error == ""
        await asyncio.wait_for(plugin.wait_idle(), 1)

    idle.run(main())


class PoolRecorder:
    """A publisher that records the pools."""

    def __init__(self) -> None:
        self.pools: list[Any] = []
        self.came = asyncio.Event()

    def set_pools(self, driver: str, node: str, pools: Any) -> None:
        assert (driver, node) == (DRIVER, NODE)
        self.pools.append(pools)
        self.came.set()


def test_health_updates_become_taints_and_are_sent_to_the_kubelet() -> None:
    async def main() -> None:
        driver, publisher = FakeDriver(), PoolRecorder()
        plugin = node_driver(driver, memory_host(), MemoryClient())
        work = asyncio.create_task(plugin.run(publisher))
        await publisher.came.wait()
        stream = plugin.health()
        first = await anext(stream)
        assert {device.health for device in first} == {"Healthy"}
        assert len(first) == 8
        taint = DeviceTaint(key="gpu.test/xid", value="79", effect="NoSchedule")
        publisher.came.clear()
        driver.events.put_nowait(HealthUpdate("gpu-2", "Unhealthy", "fell off the bus", (taint,)))
        await publisher.came.wait()
        tainted = [device for group in publisher.pools[-1][0].groups for device in group if device.taints]
        assert [(device.name, device.taints) for device in tainted] == [("gpu-2", (taint,))]
        health = {device.device: (device.health, device.message) for device in await anext(stream)}
        assert health["gpu-2"] == ("Unhealthy", "fell off the bus")
        assert health["gpu-1"] == ("Healthy", "")
        publisher.came.clear()
        driver.events.put_nowait(HealthUpdate("gpu-2", "Healthy"))
        await publisher.came.wait()
        assert not any(device.taints for group in publisher.pools[-1][0].groups for device in group)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

    idle.run(main())


def test_changed_devices_are_published_and_unchanged_ones_are_not() -> None:
    async def main() -> None:
        driver, publisher = FakeDriver(), PoolRecorder()
        plugin = node_driver(driver, memory_host(), MemoryClient())
        work = asyncio.create_task(plugin.run(publisher))
        await publisher.came.wait()
        publisher.came.clear()
        driver.events.put_nowait(DevicesChanged())
        driver.events.put_nowait(DevicesChanged())
        await asyncio.sleep(0.01)
        assert len(publisher.pools) == 1
        driver.devices.remove("gpu-5")
        driver.events.put_nowait(DevicesChanged())
        await publisher.came.wait()
        assert len(publisher.pools[-1][0].groups) == 7
        assert len(await anext(plugin.health())) == 7
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

    idle.run(main())


class Fpgas(FakeDriver):
    """A driver whose devices have these plain values."""

    attributes: Any = {"family": "Stratix"}

    async def discover(self) -> list[DevicePool]:
        plain: Any = {"attributes": self.attributes, "capacity": {"memory": "16Gi"}}
        return [DevicePool([[Device(name="fpga-0", **plain)]])]


def test_plain_values_are_published() -> None:
    async def main() -> None:
        (pool,) = await node_driver(Fpgas(), memory_host(), MemoryClient()).discover_pools()
        (spec,) = build_slices(pool, DRIVER, NODE, Features("1.36")).specs
        (fpga,) = spec.devices or ()
        assert fpga.attributes == {"family": DeviceAttribute(string="Stratix")}
        assert fpga.capacity == {"memory": DeviceCapacity(value=Quantity.parse("16Gi"))}

    idle.run(main())


def test_a_device_with_a_wrong_type_ends_the_driver_immediately() -> None:
    async def main() -> None:
        driver, publisher = Fpgas(), PoolRecorder()
        driver.attributes = {"clock": 1.5}
        with pytest.raises(ExceptionGroup) as errors:
            await node_driver(driver, memory_host(), MemoryClient()).run(publisher)
        (error,) = errors.value.exceptions
        assert isinstance(error, InvalidDevice)
        assert str(error).startswith("device 'fpga-0': attribute 'clock': expected str, int, bool")
        assert publisher.pools == []

    idle.run(main())


def test_published_devices_stay_if_a_later_one_has_a_wrong_type(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        driver, publisher = Fpgas(), PoolRecorder()
        plugin = node_driver(driver, memory_host(), MemoryClient())
        work = asyncio.create_task(plugin.run(publisher))
        await publisher.came.wait()
        driver.attributes = {"clock": None}
        driver.events.put_nowait(DevicesChanged())
        while "found None; will retry" not in caplog.text:
            await asyncio.sleep(0.01)
        assert len(publisher.pools) == 1
        assert {device.device for device in await anext(plugin.health())} == {"fpga-0"}
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

    idle.run(main())
    assert "Traceback" not in caplog.text


def test_a_pool_that_the_api_rejects_is_retried_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    class Rejecting(PoolRecorder):
        def set_pools(self, driver: str, node: str, pools: Any) -> None:
            super().set_pools(driver, node, pools)
            if len(self.pools) < 3:
                raise InvalidPool(["two devices are named 'gpu-0'"])

    async def main() -> None:
        publisher = Rejecting()
        work = asyncio.create_task(node_driver(FakeDriver(), memory_host(), MemoryClient()).run(publisher))
        while len(publisher.pools) < 3:
            await asyncio.sleep(0.1)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

    idle.run(main())
    assert caplog.messages.count("gpu.test: two devices are named 'gpu-0'; will retry") == 1
    assert "Traceback" not in caplog.text


def test_health_is_unknown_if_the_watch_ends_and_a_failed_watch_is_restarted() -> None:
    class Unwatched(FakeDriver):
        failures = 2

        async def discover(self) -> Any:
            if self.failures:
                self.failures -= 1
                raise OSError("no driver library")
            return await super().discover()

        async def watch(self) -> Any:
            for event in list[Any]():
                yield event

    async def main() -> None:
        driver, publisher = Unwatched(), PoolRecorder()
        plugin = node_driver(driver, memory_host(), MemoryClient())
        plugin._clock.speed = 1000.0
        work = asyncio.create_task(plugin.run(publisher))
        await publisher.came.wait()
        await asyncio.sleep(0.01)
        devices = await anext(plugin.health())
        assert {(device.health, device.message) for device in devices} == {
            ("Unknown", "the driver does not watch its devices")
        }
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work

    idle.run(main())


def test_cdi_files_of_other_programs_are_not_changed() -> None:
    async def main() -> None:
        from allotment.cdi.spec import CdiDevice, ContainerEdits, Spec

        cdi = MemoryStore()
        foreign = Spec("vendor.com/gpu", (CdiDevice("all", ContainerEdits(env=("A=1",))),))
        for name in ("vendor.com-gpu", "k8s.gpu.test-claim", "k8s.other.test-claim_1", "k8s.gpu.test-claim_stale"):
            cdi.write(name, foreign)
        await node_driver(FakeDriver(), memory_host(cdi=cdi), MemoryClient()).recover()
        assert cdi.names() == {"vendor.com-gpu", "k8s.gpu.test-claim", "k8s.other.test-claim_1"}

    idle.run(main())


def test_an_unexpected_error_fails_only_its_claim(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(FakeDriver):
        def plan(self, claim: Any) -> Any:
            if claim.name == "odd":
                raise KeyError("gpu-9")
            return super().plan(claim)

    async def main() -> None:
        client, driver = MemoryClient(), Failing()
        odd, good = put_claim(client, "odd", "gpu-0"), put_claim(client, "good", "gpu-1")
        answers = await node_driver(driver, memory_host(), client).prepare([odd, good])
        assert answers[good.uid].error == ""
        assert answers[odd.uid].error == "claim shop/odd: the driver failed unexpectedly: KeyError: 'gpu-9'"

    idle.run(main())
    assert "Traceback" in caplog.text


def test_health_is_unknown_while_the_watch_fails() -> None:
    class Unwatched(FakeDriver):
        blind = True

        async def watch(self) -> AsyncIterator[DeviceEvent]:
            if self.blind:
                raise OSError("the library does not answer")
            async for event in super().watch():
                yield event

    class Published:
        def set_pools(self, driver: str, node: str, pools: object) -> None:
            """Ignore the pools."""

    async def main() -> None:
        driver = Unwatched()
        plugin = node_driver(driver, memory_host(), MemoryClient())
        plugin._clock.speed = 100.0
        running = asyncio.create_task(plugin.run(Published()))
        stream = aiter(plugin.health())

        async def until(health: str) -> None:
            async with asyncio.timeout(5):
                while {device.health for device in await anext(stream)} != {health}:
                    pass

        await until("Unknown")
        driver.blind = False
        await until("Healthy")
        running.cancel()
        await asyncio.wait((running,))

    idle.run(main())
