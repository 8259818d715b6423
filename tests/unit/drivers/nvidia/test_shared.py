from collections.abc import Awaitable, Callable

import pytest

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.hardware import HardwareError
from allotment.fleet.profiles import MIB
from tests.unit.cluster import idle
from tests.unit.drivers.nvidia.nodes import Simulated, config, env, gpu, mps, node, only, slicing

GIB = 1024


def on(story: Callable[[Simulated], Awaitable[None]], mode: str = "shared") -> None:
    async def told() -> None:
        await story(await node("dgx-a100-40gb", mode, gpus=2, address=lambda token: f"/sock#{token}"))

    idle.run(told())


def test_ten_gibibytes_of_a_gpu_are_exactly_that() -> None:
    async def story(n: Simulated) -> None:
        plan, prepared = await n.prepare("c1", gpu("gpu-0", share="s-1", memory="10Gi"))
        (daemon,) = n.daemons()
        assert daemon.memory_limits == {daemon.uuids[0]: 10 * GIB}
        _, _, token = env(only(prepared))["ALLOTMENT_GPU"].partition("#")
        share = n.hardware.share(token)
        assert share is not None
        assert (share.strategy, share.memory_limit, share.daemon) == ("mps", 10 * GIB * MIB, daemon.key)
        data = only(prepared).status_data
        assert data is not None
        assert data["sharing"]["memoryLimit"] == "10240Mi"
        await n.driver.unprepare(plan)
        assert n.hardware.share(token) is None

    on(story)


def test_claims_on_one_gpu_each_have_their_daemon_and_end_alone() -> None:
    async def story(n: Simulated) -> None:
        first, _ = await n.prepare("c1", gpu("gpu-0", share="s-1", memory="10Gi"))
        second, _ = await n.prepare("c2", gpu("gpu-0", share="s-2", memory="20Gi"), others=(first,))
        assert sorted(limit for daemon in n.daemons() for limit in daemon.memory_limits.values()) == [10240, 20480]
        # More than one daemon: nobody can own the GPU.
        assert n.card().mode == "DEFAULT"
        await n.driver.unprepare(first, (second,))
        (left,) = n.daemons()
        assert list(left.memory_limits.values()) == [20480]
        await n.driver.unprepare(second)
        assert n.daemons() == []

    on(story)


def test_one_claim_holds_two_shares_of_one_gpu() -> None:
    async def story(n: Simulated) -> None:
        big = gpu("gpu-0", request="big", share="s-1", memory="20Gi")
        small = gpu("gpu-0", request="small", share="s-2", memory="1Gi")
        plan, prepared = await n.prepare("c1", big, small)
        assert len(n.daemons()) == len(prepared.devices) == 2
        tokens = {env(ready)["ALLOTMENT_GPU"].partition("#")[2] for ready in prepared.devices.values()}
        shares = [n.hardware.share(token) for token in tokens]
        assert {share.memory_limit for share in shares if share} == {20 * GIB * MIB, GIB * MIB}
        await n.driver.unprepare(plan)

    on(story)


def test_threads_may_be_limited_too_but_memory_is_what_was_asked_for() -> None:
    async def story(n: Simulated) -> None:
        threads = mps(defaultActiveThreadPercentage=20)
        await n.prepare("c1", gpu("gpu-0", threads, share="s-1", memory="10Gi"))
        (daemon,) = n.daemons()
        assert daemon.threads == 20
        with pytest.raises(ClaimError, match=r"capacity\.requests\.memory"):
            n.plan("c2", gpu("gpu-0", mps(defaultPinnedDeviceMemoryLimit="30Gi"), share="s-2", memory="10Gi"))
        with pytest.raises(ClaimError, match="needs MPS"):
            n.plan("c2", gpu("gpu-0", slicing("Long"), share="s-2", memory="10Gi"))

    on(story)


def test_without_a_consumed_amount_nothing_can_be_enforced() -> None:
    async def story(n: Simulated) -> None:
        with pytest.raises(ClaimError, match="DRAConsumableCapacity"):
            n.plan("c1", gpu("gpu-0"))
        with pytest.raises(ClaimError, match="at least 1Mi"):
            n.plan("c1", gpu("gpu-0", share="s-1", memory="1000"))

    on(story)


def test_an_administrator_looks_at_a_shared_gpu_without_a_limit() -> None:
    async def story(n: Simulated) -> None:
        plan, prepared = await n.prepare("c1", gpu("gpu-0", admin=True))
        assert n.daemons() == []
        assert "CUDA_MPS_PIPE_DIRECTORY" not in env(only(prepared))
        await n.driver.unprepare(plan)

    on(story)


# --- counted shares, the vendor's way -------------------------------------------------------------------------------


def test_counted_shares_with_the_same_time_slice_set_it_back_with_the_last() -> None:
    async def story(n: Simulated) -> None:
        first, _ = await n.prepare("c1", gpu("gpu-0", slicing("Long"), share="s-1", shares="1"))
        second, _ = await n.prepare("c2", gpu("gpu-0", slicing("Long"), share="s-2", shares="1"), others=(first,))
        await n.driver.unprepare(first, (second,))
        assert n.card().interval == 3
        await n.driver.unprepare(second)
        assert n.card().interval == 0

    on(story, "consumable-shares=4")


@pytest.mark.parametrize("other", [slicing("Short"), None])
def test_counted_shares_with_different_parameters_are_refused(other: object) -> None:
    async def story(n: Simulated) -> None:
        first, _ = await n.prepare("c1", gpu("gpu-0", slicing("Long"), share="s-1"))
        with pytest.raises(ClaimError, match="claim c1 has a share of it with time slice 3") as caught:
            n.plan("c2", gpu("gpu-0", other, share="s-2"), others=(first,))
        assert not caught.value.permanent
        n.plan("c2", gpu("gpu-1", other, share="s-2"), others=(first,))

    on(story, "consumable-shares=4")


def test_counted_shares_and_mps_do_not_go_together() -> None:
    async def story(n: Simulated) -> None:
        with pytest.raises(ClaimError, match="mode shared"):
            n.plan("c1", gpu("gpu-0", config("GpuConfig", sharing={"strategy": "MPS"}), share="s-1"))

    on(story, "consumable-shares=4")


def test_hardware_lets_nobody_own_a_gpu_with_two_daemons() -> None:
    async def story(n: Simulated) -> None:
        await n.prepare("c1", gpu("gpu-0", share="s-1", memory="10Gi"))
        await n.prepare("c2", gpu("gpu-0", share="s-2", memory="20Gi"))
        with pytest.raises(HardwareError):
            await n.hardware.set_compute_mode(n.pci[0], "EXCLUSIVE_PROCESS")

    on(story)
