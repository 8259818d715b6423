import asyncio

from allotment.node.runtimes.simulated_http import MAX_PENDING_ANSWERS, SimulatedHttpConnection, fixed_answer
from tests.unit.cluster import idle

_ASKED = b"GET / HTTP/1.1\r\n\r\n"


def test_a_connection_answers_requests() -> None:
    async def told() -> bytes:
        page = SimulatedHttpConnection(fixed_answer("hello"))
        await page.write(_ASKED)
        return await page.read()

    assert idle.run(told()).endswith(b"\r\n\r\nhello")


def test_a_client_that_does_not_read_is_throttled() -> None:
    async def told() -> None:
        page = SimulatedHttpConnection(fixed_answer("hello"))
        asking = asyncio.create_task(page.write(_ASKED * 10 * MAX_PENDING_ANSWERS))
        done, _ = await asyncio.wait([asking], timeout=0.05)
        assert not done
        await page.close()
        asking.cancel()

    idle.run(told())
