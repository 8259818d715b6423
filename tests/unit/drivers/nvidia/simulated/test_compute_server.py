import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from allotment.drivers.nvidia.simulated.compute_server import ComputeServer, ProgramSession
from allotment.drivers.nvidia.simulated.container_edits import VARIABLE
from allotment.drivers.nvidia.simulated.engine import ComputeError
from allotment.drivers.nvidia.simulated.share import ComputeShare
from tests.unit.cluster import idle

GIB = 1 << 30
SPEED = 50.0
A100 = ComputeShare("claim-1", "0000:07:00.0", "GPU-1", "NVIDIA A100-SXM4-40GB", 108, 40 * GIB, "exclusive")
TIME_SLICED = A100._replace(strategy="time-slicing", interval=3)
MPS = A100._replace(strategy="mps", daemon="mps-1", threads=33, memory_limit=5 * GIB)
MIG = A100._replace(strategy="mig", profile="1g.5gb", engine="MIG-0", multiprocessors=14, memory=4864 << 20)


def shares(**shares_by_token: ComputeShare) -> ComputeServer:
    compute = ComputeServer(speed=SPEED)
    compute.attach(shares_by_token.get)
    return compute


async def images(clients: list[ProgramSession], count: int = 4) -> list[float]:
    """The simulated seconds that each client needs for ``count`` concurrent kernels."""

    async def draws(client: ProgramSession) -> float:
        return max(await asyncio.gather(*(client.run(work=16.0, width=32) for _ in range(count))))

    return await asyncio.gather(*(draws(client) for client in clients))


def test_a_program_that_has_a_gpu_to_itself_runs_at_its_own_width() -> None:
    async def scenario() -> None:
        compute = shares(a=A100)
        assert await images([compute.open("a")]) == [pytest.approx(2.0, rel=0.01)]

    idle.run(scenario())


def test_three_time_sliced_programs_take_three_times_as_long_and_three_mps_clients_do_not() -> None:
    async def scenario() -> None:
        turns, mps = shares(a=TIME_SLICED), shares(a=MPS)
        in_turn = await images([turns.open("a") for _ in range(3)])
        at_once = await images([mps.open("a") for _ in range(3)])
        assert max(in_turn) == pytest.approx(6.0, rel=0.1)
        assert at_once == [pytest.approx(2.0, rel=0.01)] * 3

    idle.run(scenario())


def test_a_mig_device_is_slower_and_isolated_from_others() -> None:
    async def scenario() -> None:
        shares_by_token = {str(n): MIG._replace(engine=f"MIG-{n}") for n in range(7)}
        compute = shares(**shares_by_token)
        times = await images([compute.open(token) for token in shares_by_token], count=1)
        assert times == [pytest.approx(16 / 14)] * 7

    idle.run(scenario())


def test_memory_is_limited_by_the_driver_and_the_error_names_the_limit() -> None:
    async def scenario() -> None:
        compute = shares(mps=MPS, mig=MIG, all=A100._replace(engine="GPU-2"))
        client = compute.open("mps")
        held = client.allocate(4 * GIB)
        with pytest.raises(
            ComputeError, match=r"tried to allocate 2048 MiB; MPS limits this program to 5120 MiB"
        ) as refused:
            client.allocate(2 * GIB)
        assert refused.value.code == "CUDA_ERROR_OUT_OF_MEMORY"
        client.free(held)
        client.allocate(5 * GIB)
        with pytest.raises(ComputeError, match=r"MIG 1g\.5gb has 4864 MiB"):
            compute.open("mig").allocate(5 * GIB)
        with pytest.raises(ComputeError, match=r"NVIDIA A100-SXM4-40GB has 40960 MiB"):
            compute.open("all").allocate(41 * GIB)

    idle.run(scenario())


def test_a_program_that_ends_frees_its_memory_and_its_kernels_are_cancelled() -> None:
    async def scenario() -> None:
        compute = shares(a=A100)
        first, second = compute.open("a"), compute.open("a")
        first.allocate(40 * GIB)
        lost = asyncio.create_task(first.run(1e6, 108))
        await asyncio.sleep(0)
        first.close()
        second.allocate(40 * GIB)
        assert await second.run(10.8, 108) == pytest.approx(0.1, rel=0.05)
        with pytest.raises(asyncio.CancelledError):
            await lost

    idle.run(scenario())


def test_an_exclusive_gpu_rejects_a_second_program_until_the_first_has_ended() -> None:
    async def scenario() -> None:
        compute = shares(a=A100._replace(exclusive=True))
        first = compute.open("a")
        with pytest.raises(ComputeError, match="EXCLUSIVE_PROCESS"):
            compute.open("a")
        first.close()
        compute.open("a")

    idle.run(scenario())


def test_a_token_is_invalid_after_its_claim_was_unprepared() -> None:
    async def scenario() -> None:
        shares_by_token = {"a": A100}
        compute = shares()
        compute.attach(shares_by_token.get)
        client = compute.open("a")
        shares_by_token.clear()
        for attempt in (lambda: compute.open("a"), lambda: client.allocate(1)):
            with pytest.raises(ComputeError, match="no prepared device for this token"):
                attempt()

    idle.run(scenario())


def test_a_device_cannot_be_destroyed_while_a_program_uses_it() -> None:
    async def scenario() -> None:
        engines: list[str] = []

        @contextmanager
        def running(share: ComputeShare) -> Iterator[None]:
            engines.append(share.engine)
            yield
            engines.remove(share.engine)

        compute = ComputeServer(speed=SPEED)
        compute.attach({"a": A100}.get, running)
        first, second = compute.open("a"), compute.open("a")
        assert engines == ["GPU-1", "GPU-1"]
        first.close()
        first.close()
        assert engines == ["GPU-1"]
        second.close()
        assert not engines

    idle.run(scenario())


def test_a_program_can_lower_but_not_raise_the_limit_of_its_daemon() -> None:
    async def scenario() -> None:
        compute = shares(a=MPS._replace(threads=50))
        less, more = compute.open("a", threads=25), compute.open("a", threads=100)
        assert await less.run(27.0, 108) == pytest.approx(1.0)
        assert await more.run(54.0, 108) == pytest.approx(1.0)
        with pytest.raises(ComputeError, match="1 to 100 percent"):
            compute.open("a", threads=0)

    idle.run(scenario())


def test_the_activity_of_an_engine_is_available_while_a_program_uses_it() -> None:
    async def scenario() -> None:
        compute = shares(a=A100)
        assert compute.activity("GPU-1") is None
        client = compute.open("a")
        client.allocate(GIB)
        await client.run(54.0, 54)
        activity = compute.activity("GPU-1")
        assert activity is not None
        assert (activity.programs, activity.memory_used) == (1, GIB)
        assert activity.busy * activity.seconds == pytest.approx(54 / 108)
        client.close()
        assert compute.activity("GPU-1") is None

    idle.run(scenario())


# --- over the socket ------------------------------------------------------------------------------------------------

Request = Callable[..., Awaitable[Any]]


async def serve(compute: ComputeServer, scenario: Callable[[str], Awaitable[None]], token: str = "a") -> None:
    """Run a scenario with an address while the server serves programs."""
    async with asyncio.TaskGroup() as group:
        running = group.create_task(compute.run())
        await scenario(compute.address(token))
        running.cancel()


async def program(address: str, **first: Any) -> tuple[Request, Callable[[], Awaitable[None]]]:
    path, _, token = address.partition("#")
    reader, writer = await asyncio.open_unix_connection(path)

    async def request(**words: Any) -> Any:
        writer.write(json.dumps(words).encode() + b"\n")
        return json.loads(await reader.readline())

    async def end() -> None:
        writer.close()
        await writer.wait_closed()

    assert (await request(id=0, open=token, **first))["uuid"] == "GPU-1"
    return request, end


def test_programs_reach_their_gpu_by_the_address_of_their_token() -> None:
    async def scenario(address: str) -> None:
        request, end = await program(address)
        assert await request(id=1, run=16.0, width=32) == {"id": 1, "seconds": pytest.approx(0.5)}
        taken = await request(id=2, allocate=6 * GIB)
        assert taken["error"] == "CUDA_ERROR_OUT_OF_MEMORY"
        assert await request(id=3, allocate=GIB) == {"id": 3, "allocation": 1}
        assert await request(id=4, free=1) == {"id": 4}
        assert (await request(id=5, free=1))["error"] == "CUDA_ERROR_INVALID_VALUE"
        assert (await request(id=6, dance=1))["error"] == "CUDA_ERROR_NOT_SUPPORTED"
        for work in (0, -1, 1e300, "much", None):
            assert (await request(id=7, run=work))["error"] == "CUDA_ERROR_INVALID_VALUE"
        await end()

    asyncio.run(serve(shares(a=MPS), scenario))


def test_a_killed_program_is_removed_from_the_gpu() -> None:
    compute = shares(a=A100)

    async def scenario(address: str) -> None:
        request, end = await program(address)
        await request(id=1, allocate=40 * GIB)
        await end()
        while compute.activity("GPU-1") is not None:
            await asyncio.sleep(0.001)
        request, end = await program(address)
        assert "allocation" in await request(id=1, allocate=40 * GIB)
        await end()

    asyncio.run(serve(compute, scenario))


@pytest.mark.parametrize(
    "line", [b"nonsense\n", b"[]\n", b"[" * 60_000 + b"\n", b"x" * 70_000 + b"\n", b"\xff\n", b"{}\n"]
)
def test_a_connection_that_violates_the_protocol_is_closed_and_others_are_served(line: bytes) -> None:
    async def scenario(address: str) -> None:
        reader, writer = await asyncio.open_unix_connection(address.partition("#")[0])
        writer.write(line)
        assert await reader.read() in (b"", await _no_device())
        writer.close()
        request, end = await program(address)
        assert await request(id=1, run=1.0) == {"id": 1, "seconds": 1.0}
        await end()

    asyncio.run(serve(shares(a=A100), scenario))


async def _no_device() -> bytes:
    message = "no CUDA-capable device: no prepared device for this token"
    return json.dumps({"id": None, "error": "CUDA_ERROR_NO_DEVICE", "message": message}).encode() + b"\n"


def test_the_socket_exists_from_the_first_address_until_close(tmp_path: Path) -> None:
    async def scenario() -> None:
        compute = ComputeServer()
        running = asyncio.create_task(compute.run())
        await asyncio.sleep(0)
        path = Path(compute.address("a").partition("#")[0])
        assert path.is_socket()
        running.cancel()
        await asyncio.wait([running])
        assert not path.parent.exists()

    asyncio.run(scenario())
    assert VARIABLE == "ALLOTMENT_GPU"


def test_no_socket_is_created_after_close() -> None:
    compute = ComputeServer()
    compute.close()
    with pytest.raises(ComputeError, match="have been shut down"):
        compute.address("a")
