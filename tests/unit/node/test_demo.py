"""The articles' application in a simulated container, from its first picture to the release of its GPU."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from allotment.cluster.clock import Clock
from allotment.node.runtimes.demo_application import demo
from allotment.node.runtimes.simulated import SimulatedRuntime
from tests.unit.node.sandboxes import sandbox


def test_the_demo_answers_like_the_application_until_its_container_ends() -> None:
    async def scenario() -> None:
        application = demo({"FORCE_CPU": "true", "WIDTH": "40", "HEIGHT": "32"})
        assert application is not None
        assert (await application("/healthz")).body == b"ok\n"
        assert (await application("/image.png")).content_type == "image/png"
        ended = asyncio.create_task(asyncio.sleep(0))
        ended.add_done_callback(application.end)
        await ended
        await asyncio.sleep(0)
        with pytest.raises(ConnectionResetError):
            await application("/image.png")

    asyncio.run(scenario())


@asynccontextmanager
async def gpu(*, seconds_to_open: float = 0.0, seconds_to_notice: float = 0.0) -> AsyncIterator[tuple[str, list[str]]]:
    """A slow simulated GPU; yields its address and the events on it."""
    happened: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            (verb,) = json.loads(line).keys() & {"open", "allocate", "run"}
            happened.append(verb)
            if verb == "open":
                await asyncio.sleep(seconds_to_open)
            if verb != "run":  # pictures never finish
                answer = {"product": "A100", "strategy": "exclusive", "multiprocessors": 108, "memory": 1 << 30}
                writer.write(json.dumps(answer).encode() + b"\n")
        await asyncio.sleep(seconds_to_notice)
        happened.append("free")
        writer.close()

    folder = Path(tempfile.mkdtemp(prefix="al-"))
    try:
        async with await asyncio.start_unix_server(serve, folder / "s"):
            yield f"{folder / 's'}#token", happened
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("since", "seconds_to_open", "seconds_to_notice"),
    [("run", 0.0, 0.2), ("open", 0.2, 0.0)],
    ids=["drawing", "opening"],
)
def test_a_container_has_ended_once_it_released_its_gpu(
    since: str, seconds_to_open: float, seconds_to_notice: float
) -> None:
    """Otherwise the driver could not release the device, which is in use by another client."""

    async def scenario() -> None:
        async with gpu(seconds_to_open=seconds_to_open, seconds_to_notice=seconds_to_notice) as (address, happened):
            variables = {"ALLOTMENT_GPU": address, "WIDTH": "40", "HEIGHT": "32"}

            async def write(data: bytes) -> None: ...

            box = sandbox(image="gpu-demo-app", env=variables, ports=(5000,))
            container = await SimulatedRuntime(Clock()).start(box, write)
            page = await container.connect(5000)
            request = asyncio.create_task(page.write(b"GET /image.png HTTP/1.1\r\n\r\n"))
            while since not in happened:
                await asyncio.sleep(0.001)
            waiting = asyncio.create_task(container.wait())
            await container.stop(1.0)
            assert happened[-1] == "free"
            await waiting
            await request

    asyncio.run(asyncio.wait_for(scenario(), 55))


def test_without_a_source_tree_a_container_says_where_its_application_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.node.runtimes.demo_application.examples_folder", lambda: None)

    async def scenario() -> bytes:
        async def write(data: bytes) -> None: ...

        container = await SimulatedRuntime(Clock()).start(sandbox(image="gpu-demo-app", ports=(5000,)), write)
        page = await container.connect(5000)
        await page.write(b"GET / HTTP/1.1\r\n\r\n")
        answer = await page.read()
        await container.stop(0)
        return answer

    assert b"the demo application exists only in Allotment's source tree (examples/gpu_fractal)" in asyncio.run(
        scenario()
    )
