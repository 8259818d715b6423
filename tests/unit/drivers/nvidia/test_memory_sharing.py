from collections.abc import Awaitable, Callable

import pytest

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.hardware import HardwareError
from allotment.fleet.profiles import MIB
from tests.unit.cluster import idle
from tests.unit.drivers.nvidia.nodes import (
    SimulatedNode,
    config,
    env,
    gpu,
    mps,
    only_device,
    simulated_node,
    time_slicing,
)

GIB = 1024


def run_on_node(scenario: Callable[[SimulatedNode], Awaitable[None]], mode: str = "shared") -> None:
    async def main() -> None:
        await scenario(await simulated_node("dgx-a100-40gb", mode, gpus=2, address=lambda token: f"/sock#{token}"))

    idle.run(main())


def test_a_share_of_ten_gibibytes_is_limited_to_ten_gibibytes() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, prepared = await n.prepare("c1", gpu("gpu-0", share="s-1", memory="10Gi"))
        (daemon,) = n.daemons()
        assert daemon.memory_limits == {daemon.uuids[0]: 10 * GIB}
        _, _, token = env(only_device(prepared))["ALLOTMENT_GPU"].partition("#")
        share = n.hardware.share(token)
        assert share is not None
        assert (share.strategy, share.memory_limit, share.daemon) == ("mps", 10 * GIB * MIB, daemon.key)
        data = only_device(prepared).status_data
        assert data is not None
        assert data["sharing"]["memoryLimit"] == "10240Mi"
        await n.driver.unprepare(plan)
        assert n.hardware.share(token) is None

    run_on_node(scenario)


def test_claims_on_one_gpu_have_separate_daemons() -> None:
    async def scenario(n: SimulatedNode) -> None:
        first, _ = await n.prepare("c1", gpu("gpu-0", share="s-1", memory="10Gi"))
        second, _ = await n.prepare("c2", gpu("gpu-0", share="s-2", memory="20Gi"), others=(first,))
        assert sorted(limit for daemon in n.daemons() for limit in daemon.memory_limits.values()) == [10240, 20480]
        # With several daemons, none can own the GPU.
        assert n.card().mode == "DEFAULT"
        await n.driver.unprepare(first, (second,))
        (left,) = n.daemons()
        assert list(left.memory_limits.values()) == [20480]
        await n.driver.unprepare(second)
        assert n.daemons() == []

    run_on_node(scenario)


def test_one_claim_holds_two_shares_of_one_gpu() -> None:
    async def scenario(n: SimulatedNode) -> None:
        big = gpu("gpu-0", request="big", share="s-1", memory="20Gi")
        small = gpu("gpu-0", request="small", share="s-2", memory="1Gi")
        plan, prepared = await n.prepare("c1", big, small)
        assert len(n.daemons()) == len(prepared.devices) == 2
        tokens = {env(ready)["ALLOTMENT_GPU"].partition("#")[2] for ready in prepared.devices.values()}
        shares = [n.hardware.share(token) for token in tokens]
        assert {share.memory_limit for share in shares if share} == {20 * GIB * MIB, GIB * MIB}
        await n.driver.unprepare(plan)

    run_on_node(scenario)


def test_threads_can_be_limited_but_memory_is_the_requested_amount() -> None:
    async def scenario(n: SimulatedNode) -> None:
        threads = mps(defaultActiveThreadPercentage=20)
        await n.prepare("c1", gpu("gpu-0", threads, share="s-1", memory="10Gi"))
        (daemon,) = n.daemons()
        assert daemon.threads == 20
        with pytest.raises(ClaimError, match=r"capacity\.requests\.memory"):
            n.plan("c2", gpu("gpu-0", mps(defaultPinnedDeviceMemoryLimit="30Gi"), share="s-2", memory="10Gi"))
        with pytest.raises(ClaimError, match="expected MPS"):
            n.plan("c2", gpu("gpu-0", time_slicing("Long"), share="s-2", memory="10Gi"))

    run_on_node(scenario)


def test_without_a_consumed_amount_nothing_can_be_enforced() -> None:
    async def scenario(n: SimulatedNode) -> None:
        with pytest.raises(ClaimError, match="DRAConsumableCapacity"):
            n.plan("c1", gpu("gpu-0"))
        with pytest.raises(ClaimError, match="at least 1Mi"):
            n.plan("c1", gpu("gpu-0", share="s-1", memory="1000"))

    run_on_node(scenario)


def test_admin_access_to_a_shared_gpu_has_no_limit() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, prepared = await n.prepare("c1", gpu("gpu-0", admin=True))
        assert n.daemons() == []
        assert "CUDA_MPS_PIPE_DIRECTORY" not in env(only_device(prepared))
        await n.driver.unprepare(plan)

    run_on_node(scenario)


# --- counted shares, as in NVIDIA's driver----------------------------------------------------------------------------


def test_counted_shares_reset_a_common_time_slice_after_the_last() -> None:
    async def scenario(n: SimulatedNode) -> None:
        first, _ = await n.prepare("c1", gpu("gpu-0", time_slicing("Long"), share="s-1", shares="1"))
        second, _ = await n.prepare("c2", gpu("gpu-0", time_slicing("Long"), share="s-2", shares="1"), others=(first,))
        await n.driver.unprepare(first, (second,))
        assert n.card().interval == 3
        await n.driver.unprepare(second)
        assert n.card().interval == 0

    run_on_node(scenario, "consumable-shares=4")


@pytest.mark.parametrize("other", [time_slicing("Short"), None])
def test_counted_shares_with_different_parameters_are_rejected(other: object) -> None:
    async def scenario(n: SimulatedNode) -> None:
        first, _ = await n.prepare("c1", gpu("gpu-0", time_slicing("Long"), share="s-1"))
        with pytest.raises(ClaimError, match="claim c1 uses it with time-slicing interval Long") as caught:
            n.plan("c2", gpu("gpu-0", other, share="s-2"), others=(first,))
        assert not caught.value.permanent
        n.plan("c2", gpu("gpu-1", other, share="s-2"), others=(first,))

    run_on_node(scenario, "consumable-shares=4")


def test_counted_shares_reject_mps() -> None:
    async def scenario(n: SimulatedNode) -> None:
        with pytest.raises(ClaimError, match="mode shared"):
            n.plan("c1", gpu("gpu-0", config("GpuConfig", sharing={"strategy": "MPS"}), share="s-1"))

    run_on_node(scenario, "consumable-shares=4")


def test_a_gpu_with_two_daemons_cannot_be_exclusive() -> None:
    async def scenario(n: SimulatedNode) -> None:
        await n.prepare("c1", gpu("gpu-0", share="s-1", memory="10Gi"))
        await n.prepare("c2", gpu("gpu-0", share="s-2", memory="20Gi"))
        with pytest.raises(HardwareError):
            await n.hardware.set_compute_mode(n.pci[0], "EXCLUSIVE_PROCESS")

    run_on_node(scenario)
