import asyncio

from allotment.node.runtimes.simulated_http import MAX_PENDING_ANSWERS, SimulatedHttpConnection, fixed_answer
from tests.unit.cluster import idle

_REQUEST = b"GET / HTTP/1.1\r\n\r\n"


def test_a_connection_answers_requests() -> None:
    async def scenario() -> bytes:
        page = SimulatedHttpConnection(fixed_answer("hello"))
        await page.write(_REQUEST)
        return await page.read()

    assert idle.run(scenario()).endswith(b"\r\n\r\nhello")


def test_a_client_that_does_not_read_is_throttled() -> None:
    async def scenario() -> None:
        page = SimulatedHttpConnection(fixed_answer("hello"))
        request = asyncio.create_task(page.write(_REQUEST * 10 * MAX_PENDING_ANSWERS))
        done, _ = await asyncio.wait([request], timeout=0.05)
        assert not done
        await page.close()
        request.cancel()

    idle.run(scenario())
