"""Reading and following a container's log."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from allotment.node.container_log import ContainerLog
from tests.unit.cluster import idle

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_output_becomes_lines() -> None:
    journal = ContainerLog()
    journal.write(b"one\ntw", NOW)
    journal.write(b"o\nthree", NOW)
    assert [line.text for line in journal.lines()] == [b"one", b"two"]
    journal.close(NOW)
    assert [line.text for line in journal.lines(last=1)] == [b"three"]
    assert journal.lines(last=0) == []


def test_the_oldest_lines_are_dropped() -> None:
    journal = ContainerLog()
    for number in range(5000):
        journal.write(f"{number}\n".encode(), NOW)
    lines = journal.lines()
    assert len(lines) == 2000
    assert lines[-1].text == b"4999"


def test_following_ends_with_the_container() -> None:
    async def follow() -> list[bytes]:
        journal = ContainerLog()
        journal.write(b"before\n", NOW)
        found: list[bytes] = []

        async def read() -> None:
            async for lines in journal.follow(0):
                found.extend(line.text for line in lines)

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        journal.write(b"after\n", NOW)
        await asyncio.sleep(0)
        journal.close(NOW)
        await asyncio.wait_for(reading, 1)
        return found

    assert idle.run(follow()) == [b"before", b"after"]
