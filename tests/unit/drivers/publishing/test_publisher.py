"""Publication on a real API server: the writes, and a scheduler's view of all intermediate states."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import NODES, SLICES
from allotment.drivers.driver import DevicePool
from allotment.drivers.publishing.publisher import SIMULATED, PoolWarning, Publisher
from allotment.drivers.publishing.slice_builder import InvalidPool
from allotment.engine.cluster.pools import PoolStatus
from allotment.model.features import Features
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.quantity import Quantity
from allotment.model.resource import Counter, CounterSet, Device, DeviceAttribute, DeviceCounterConsumption, DeviceTaint
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.drivers.publishing_cluster import DRIVER, Cluster, device, pool_of

TAINT = DeviceTaint(key="gpu.example.com/hot", effect="NoSchedule")


def on_a_cluster(test: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
    """Run a test on a cluster with one node."""

    def run() -> None:
        async def main() -> None:
            cluster = Cluster()
            await cluster.node()
            await test(cluster)

        idle.run(main())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


# --- slices -----------------------------------------------------------------------------------------------------------


@on_a_cluster
async def test_a_pool_of_a_node(cluster: Cluster) -> None:
    await cluster.publish(pool_of(["gpu-0", "gpu-1"]))
    (tree,) = cluster.trees()
    assert tree["metadata"]["generateName"] == "00000-gpu.example.com-n1-"
    node = await cluster.client.get(NODES, "n1")
    assert tree["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"], "controller": True}
    ]
    assert tree["spec"]["pool"] == {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    assert tree["spec"]["nodeName"] == "n1"
    assert cluster.devices() == ["gpu-0", "gpu-1"]


@on_a_cluster
async def test_each_group_has_separate_slices_in_order(cluster: Cluster) -> None:
    many = [f"z-{n}" for n in range(130)]
    await cluster.publish(pool_of(many, ["b"], ["a"]))
    assert [len(slice_.spec.devices or ()) for slice_ in cluster.slices()] == [128, 2, 1, 1]
    assert cluster.devices() == [*many, "b", "a"]
    assert cluster.generations() == [1, 1, 1, 1]


@on_a_cluster
async def test_a_pool_without_devices_is_published_as_an_empty_slice(cluster: Cluster) -> None:
    await cluster.publish(DevicePool([]))
    (only,) = cluster.slices()
    assert not only.spec.devices
    assert cluster.status() is PoolStatus.USABLE


@on_a_cluster
async def test_a_pool_for_other_nodes_is_owned_by_the_driver_s_node(cluster: Cluster) -> None:
    rack = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement("rack", "In", ("r1",)),))
    network = pool_of(["nic-0"], name="network")._replace(node_selector=NodeSelector((rack,)))
    for _ in range(2):
        await cluster.publish(network)
    (tree,) = cluster.trees()
    assert "nodeName" not in tree["spec"]
    assert tree["spec"]["nodeSelector"]["nodeSelectorTerms"][0]["matchExpressions"][0]["key"] == "rack"
    assert tree["metadata"]["ownerReferences"][0]["name"] == "n1"
    assert cluster.recorder.verbs == ["create"]
    # The node of a slice is immutable, so the slices are recreated.
    await cluster.publish(pool_of(["nic-0"], name="network"))
    assert cluster.recorder.verbs == ["create", "delete", "create"]
    assert cluster.generations("network") == [2]


@on_a_cluster
async def test_removed_pools_are_deleted(cluster: Cluster) -> None:
    await cluster.publish(pool_of(["a"]), pool_of(["b"], name="other"))
    assert cluster.devices("other") == ["b"]
    await cluster.publish(pool_of(["a"]))
    assert not cluster.slices("other")
    assert cluster.recorder.verbs == ["create", "create", "delete"]
    await cluster.publish()
    assert not cluster.trees()


@on_a_cluster
async def test_slices_are_published_when_the_node_is_created(cluster: Cluster) -> None:
    async with cluster.publisher() as publisher:
        publisher.set_pools(DRIVER, "n2", [pool_of(["a"])])
        await asyncio.sleep(0.02)
        assert not cluster.trees()
        await cluster.node("n2")
        await publisher.wait_published(DRIVER, "n2")
    assert cluster.devices("n2") == ["a"]


@on_a_cluster
async def test_slices_are_moved_to_a_recreated_node(cluster: Cluster) -> None:
    async with cluster.publisher(speed=600) as publisher:
        publisher.set_pools(DRIVER, "n1", [pool_of(["a"])])
        await publisher.wait_published(DRIVER, "n1")
        await cluster.client.delete(NODES, "n1")
        new = await cluster.node()
        await cluster.until(
            lambda: cluster.trees()[0]["metadata"]["ownerReferences"][0]["uid"] == new["metadata"]["uid"]
        )


# --- writes -----------------------------------------------------------------------------------------------------------


@on_a_cluster
async def test_a_restarted_driver_writes_nothing(cluster: Cluster) -> None:
    tainted = DevicePool([[device("gpu-0", TAINT), device("gpu-1")]])
    await cluster.publish(tainted, pool_of(["x"], ["y"], name="p"))
    before = cluster.trees()
    cluster.recorder.verbs.clear()
    await cluster.publish(tainted, pool_of(["x"], ["y"], name="p"))
    assert cluster.recorder.verbs == []
    assert cluster.trees() == before


@on_a_cluster
async def test_one_changed_slice_keeps_the_generation(cluster: Cluster) -> None:
    await cluster.publish(pool_of(["a"], ["b"]))
    cluster.recorder.verbs.clear()
    await cluster.publish(DevicePool([[device("a", model="m")], [device("b", model="new")]]))
    assert cluster.recorder.verbs == ["update"]
    assert cluster.generations() == [1, 1]


@on_a_cluster
async def test_two_changed_slices_start_a_new_generation(cluster: Cluster) -> None:
    await cluster.publish(pool_of(["a"], ["b"], ["c"]))
    cluster.recorder.verbs.clear()
    await cluster.publish(DevicePool([[device("a", model="x")], [device("b", model="x")], [device("c", model="m")]]))
    assert cluster.recorder.verbs == ["update"] * 3
    assert cluster.generations() == [2, 2, 2]


@on_a_cluster
async def test_a_removed_device_starts_a_new_generation(cluster: Cluster) -> None:
    await cluster.publish(pool_of(["a", "b"]))
    await cluster.publish(pool_of(["b"]))
    assert cluster.generations() == [2]
    assert cluster.devices() == ["b"]


@on_a_cluster
async def test_deletes_come_first_and_creates_last(cluster: Cluster) -> None:
    await cluster.publish(pool_of(["a"], ["b"], ["c"]))
    cluster.recorder.verbs.clear()
    await cluster.publish(pool_of(["a"]))
    assert cluster.recorder.verbs == ["delete", "delete", "update"]
    cluster.recorder.verbs.clear()
    await cluster.publish(pool_of(["a"], ["b"]))
    assert cluster.recorder.verbs == ["update", "create"]
    assert cluster.generations() == [3, 3]


@on_a_cluster
async def test_a_new_order_is_a_change(cluster: Cluster) -> None:
    await cluster.publish(pool_of(["a", "b"]))
    await cluster.publish(pool_of(["b", "a"]))
    assert cluster.devices() == ["b", "a"]
    assert cluster.generations() == [1]


@on_a_cluster
async def test_a_taint_keeps_its_time(cluster: Cluster) -> None:
    await cluster.publish(DevicePool([[device("a", TAINT)]]))
    (tree,) = cluster.trees()
    old = {**tree["spec"]["devices"][0]["taints"][0], "timeAdded": "2026-01-01T00:00:00Z"}
    await cluster.client.update(
        SLICES, {**tree, "spec": {**tree["spec"], "devices": [{**tree["spec"]["devices"][0], "taints": [old]}]}}
    )
    other = DeviceTaint(key="gpu.example.com/other", effect="NoExecute")
    await cluster.publish(DevicePool([[device("a", TAINT, other, model="new")]]))
    (only,) = cluster.slices()
    kept, new = (only.spec.devices or ())[0].taints
    assert kept.time_added == "2026-01-01T00:00:00Z"
    assert new.time_added is not None
    assert IdleClock().left(new.time_added) > -60


@on_a_cluster
async def test_a_lost_response_creates_no_second_slice(cluster: Cluster) -> None:
    refusals = iter([StatusError({"code": 500, "message": "no"}), StatusError({"code": 429, "message": "later"})])

    def refuse(verb: str) -> None:
        for refusal in refusals:
            raise refusal

    cluster.recorder.before = refuse
    await cluster.publish(pool_of(["a"], ["b"]))
    assert cluster.devices() == ["a", "b"]
    assert [(warning.reason, warning.message) for warning in cluster.warnings] == [
        ("Failed", "no"),
        ("Failed", "later"),
    ]


# --- other clients ----------------------------------------------------------------------------------------------------


@on_a_cluster
async def test_changes_of_other_clients_are_repaired_after_half_a_minute(cluster: Cluster) -> None:
    async with cluster.publisher(speed=200) as publisher:
        publisher.set_pools(DRIVER, "n1", [pool_of(["a"], ["b"])])
        await publisher.wait_published(DRIVER, "n1")
        await asyncio.sleep(0.2)  # until the events of the publisher's own writes are processed
        first, second = cluster.trees()
        await cluster.client.update(SLICES, {**first, "spec": {**first["spec"], "devices": [{"name": "junk"}]}})
        await cluster.client.delete(SLICES, second["metadata"]["name"])
        await asyncio.sleep(0.05)
        assert cluster.devices() == ["junk"]
        await cluster.until(lambda: cluster.devices() == ["a", "b"])
        assert cluster.status() is PoolStatus.USABLE


@on_a_cluster
async def test_slices_that_a_kubelet_removed_are_recreated_immediately(cluster: Cluster) -> None:
    async with cluster.publisher() as publisher:
        publisher.set_pools(DRIVER, "n1", [pool_of(["a"])])
        await publisher.wait_published(DRIVER, "n1")
        await cluster.client.delete(SLICES, cluster.trees()[0]["metadata"]["name"])
        await asyncio.sleep(0.02)
        publisher.set_pools(DRIVER, "n1", [pool_of(["a"])])
        await publisher.wait_published(DRIVER, "n1")
        assert cluster.devices() == ["a"]


@on_a_cluster
async def test_slices_without_an_index_are_deleted(cluster: Cluster) -> None:
    await cluster.publish(pool_of(["a"]))
    (tree,) = cluster.trees()
    slice_ = {"apiVersion": tree["apiVersion"], "kind": "ResourceSlice", "metadata": {"name": "n1-other"}}
    spec = {**tree["spec"], "pool": {**tree["spec"]["pool"], "resourceSliceCount": 2}}
    await cluster.client.create(SLICES, {**slice_, "spec": spec})
    await cluster.publish(pool_of(["a"]))
    assert [tree_["metadata"]["name"] for tree_ in cluster.trees()] == [tree["metadata"]["name"]]


@on_a_cluster
async def test_slices_of_other_drivers_and_nodes_are_not_changed(cluster: Cluster) -> None:
    await cluster.node("n2")
    await cluster.publish(pool_of(["a"]), node="n2")
    await cluster.publish(pool_of(["b"]))
    async with cluster.publisher() as publisher:
        publisher.set_pools("other.example.com", "n1", [pool_of(["c"])])
        await publisher.wait_published("other.example.com", "n1")
        publisher.remove("other.example.com", "n1")
        await publisher.wait_published("other.example.com", "n1")
    assert sorted((tree["spec"]["driver"], tree["spec"]["nodeName"]) for tree in cluster.trees()) == [
        ("gpu.example.com", "n1"),
        ("gpu.example.com", "n2"),
        ("other.example.com", "n1"),
    ]


# --- dropped fields and invalid pools ---------------------------------------------------------------------------------


def test_dropped_fields_are_reported_once_and_not_sent_again() -> None:
    async def main() -> None:
        cluster = Cluster(Features("1.36", {"DRADeviceTaints": False}))
        await cluster.node()
        for _ in range(2):
            # The publisher does not know that the gate is disabled.
            await cluster.publish(DevicePool([[device("a", TAINT, model="m")]]), known=Features("1.36"))
        assert cluster.recorder.verbs == ["create"]
        dropped = PoolWarning(
            DRIVER, "n1", "n1", "DroppedFields", "the API server drops devices[].taints (gate DRADeviceTaints)"
        )
        assert cluster.warnings == [dropped, dropped]  # by each of two processes

        async with cluster.publisher(speed=600, known=Features("1.36")) as publisher:
            publisher.set_pools(DRIVER, "n1", [DevicePool([[device("a", TAINT, model="n")]])])
            await publisher.wait_published(DRIVER, "n1")
            await asyncio.sleep(0.1)  # two repair delays
        assert cluster.recorder.verbs == ["create", "update"]
        assert cluster.warnings == [dropped] * 3

    idle.run(main())


@on_a_cluster
async def test_an_invalid_attribute_is_omitted_and_reported(cluster: Cluster) -> None:
    values = {
        "driverVersion": DeviceAttribute(version="6.19.14.31400000"),
        "9bad": DeviceAttribute(string="x"),
        "peers": DeviceAttribute(strings=("a", "b")),
        "model": DeviceAttribute(string="m"),
    }
    await cluster.publish(DevicePool([[Device(name=name, attributes=values) for name in ("a", "b")]]))
    (only,) = cluster.slices()
    assert [set(device.attributes) for device in only.spec.devices or ()] == [{"model"}, {"model"}]
    expected = [
        'attribute driverVersion: Invalid value: "6.19.14.31400000": must be a string compatible with semver.org',
        'attribute 9bad: Invalid value: "9bad": a valid C identifier must start with alphabetic character',
        "attribute peers: the cluster does not support list attributes (feature gate DRAListTypeAttributes)",
    ]
    for warning, start in zip(cluster.warnings, expected, strict=True):
        assert warning.message.startswith(start)
        assert warning.message.endswith("; not published for a, b")


ONE = {"c": Counter(value=Quantity.of_int(1))}
CONSUMER = Device(name="a", consumes_counters=(DeviceCounterConsumption(counter_set="s", counters=ONE),))


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (pool_of(["a"], ["a"]), "two devices are named 'a'"),
        (pool_of(["A"]), "a lowercase RFC 1123 label must consist of"),
        (DevicePool([[CONSUMER]]), "device 'a' consumes unknown counter set 's'"),
        (DevicePool([[CONSUMER]], [CounterSet("s", {"d": ONE["c"]})]), "consumes 'c', which is not in counter set 's'"),
        (DevicePool([[CONSUMER]], [CounterSet("s", ONE), CounterSet("s", ONE)]), "two counter sets are named 's'"),
        (DevicePool([[device("a", *[TAINT] * 17)]]), "must have at most 16 items"),
        (
            DevicePool([[device("a", **{f"a{n}": "x" for n in range(34)})]]),
            "34 attributes and capacities with 34 values; at most 32 with",
        ),
    ],
)
def test_an_invalid_pool_is_not_published(pool: DevicePool, reason: str) -> None:
    async def main() -> None:
        cluster = Cluster()
        await cluster.node()
        async with cluster.publisher() as publisher:
            publisher.set_pools(DRIVER, "n1", [pool_of(["good"])])
            with pytest.raises(InvalidPool) as error:
                publisher.set_pools(DRIVER, "n1", [pool])
            assert reason in str(error.value)
            await publisher.wait_published(DRIVER, "n1")
        assert cluster.devices() == ["good"]

    idle.run(main())


# --- intermediate states ----------------------------------------------------------------------------------------------


@st.composite
def pools(draw: st.DrawFn) -> DevicePool:
    """Pools with few devices in changing order, groups and models, so that pools are similar."""
    names = draw(st.permutations("abcdef"))
    groups: list[list[Device]] = []
    for size in draw(st.lists(st.integers(0, 3), max_size=4)):
        taken, names = names[:size], names[size:]
        groups.append([device(name, model=draw(st.sampled_from("xy"))) for name in taken])
    return DevicePool(groups)


@given(st.lists(st.tuples(pools(), st.integers(0, 6), st.booleans()), min_size=1, max_size=5))
def test_no_intermediate_state_is_a_mixture(steps: list[tuple[DevicePool, int, bool]]) -> None:
    """No sequence of pools with failing writes, lost responses and crashes exposes a mixture of two states.

    ``steps``: a pool, the number of successful writes, and whether the process then crashes.
    """

    async def main() -> None:
        cluster = Cluster()
        await cluster.node()
        expected = [[device for group in step[0].groups for device in group] for step in steps]
        mixtures: list[object] = []
        left = [0]

        def before(verb: str) -> None:
            if left[0] <= 0:
                raise StatusError({"code": 500, "message": "not now"})

        def after() -> None:
            if cluster.status() not in (None, PoolStatus.INCOMPLETE) and published_devices(cluster) not in expected:
                mixtures.append(published_devices(cluster))
            left[0] -= 1
            if left[0] == 0 and len(cluster.recorder.verbs) % 2:
                raise Unreachable("the response is lost")

        async def step(publisher: Publisher, pool: DevicePool) -> None:
            publisher.set_pools(DRIVER, "n1", [pool])
            published = asyncio.create_task(publisher.wait_published(DRIVER, "n1"))
            await cluster.until(lambda: left[0] <= 0 or published.done())
            published.cancel()

        async with AsyncExitStack() as stack:
            cluster.recorder.before, cluster.recorder.after = before, after
            publisher = await stack.enter_async_context(cluster.publisher())
            for pool, left[0], crashes in steps:
                await step(publisher, pool)
                if crashes:
                    await stack.aclose()
                    publisher = await stack.enter_async_context(cluster.publisher())
            left[0] = 1000
            publisher.set_pools(DRIVER, "n1", [steps[-1][0]])
            await publisher.wait_published(DRIVER, "n1")
        assert not mixtures
        assert cluster.status() is PoolStatus.USABLE
        assert published_devices(cluster) == expected[-1]

    idle.run(main())


def published_devices(cluster: Cluster) -> list[Device]:
    return [device for slice_ in cluster.slices() for device in slice_.spec.devices or ()]


@on_a_cluster
async def test_a_taint_keeps_its_time_when_a_kubelet_removed_its_slice(cluster: Cluster) -> None:
    tainted, healthy = DevicePool([[device("a", TAINT)]]), pool_of(["a"])
    since = "2026-01-01T00:00:00Z"
    await cluster.publish(DevicePool([[device("a", replace(TAINT, time_added=since))]]))

    async def publish_and_delete(publisher: Publisher, pool: DevicePool) -> DeviceTaint | None:
        publisher.set_pools(DRIVER, "n1", [pool])
        await publisher.wait_published(DRIVER, "n1")
        (only,) = cluster.slices()
        await cluster.client.delete(SLICES, cluster.trees()[0]["metadata"]["name"])
        await asyncio.sleep(0.02)
        return next(iter((only.spec.devices or ())[0].taints), None)

    async with cluster.publisher() as publisher:
        for _ in range(2):
            taint = await publish_and_delete(publisher, tainted)
            assert taint is not None
            assert taint.time_added == since
        assert await publish_and_delete(publisher, healthy) is None
        # The device was removed in between, so its taint is new.
        taint = await publish_and_delete(publisher, tainted)
        assert taint is not None
        assert taint.time_added not in (None, since)


# --- simulated devices ------------------------------------------------------------------------------------------------


@on_a_cluster
async def test_only_slices_of_simulated_devices_have_the_label(cluster: Cluster) -> None:
    def labels() -> list[str]:
        return [label for tree in cluster.trees() for label in tree["metadata"].get("labels") or ()]

    await cluster.publish(pool_of(["gpu-0"]), simulated=True)
    assert labels() == [SIMULATED]
    writes = len(cluster.recorder.verbs)
    await cluster.publish(pool_of(["gpu-0"]), simulated=True)
    assert len(cluster.recorder.verbs) == writes
    await cluster.publish(pool_of(["gpu-0"]))  # the same device, now real
    assert labels() == []
    await cluster.publish(pool_of(["gpu-0"]), simulated=True)
    assert labels() == [SIMULATED]
