"""Nothing that happened is lost between two looks, and nobody waits while there is something to do."""

from __future__ import annotations

import asyncio

from allotment.scheduler.cluster_events import Happening
from allotment.scheduler.pending_events import News
from tests.unit.cluster import idle


def test_all_that_happened_is_taken_once() -> None:
    news = News()
    news.happened(Happening.NODE)
    news.happened(Happening.CLAIM_FREED)
    news.happened(Happening.NODE)
    assert news.take() == {Happening.NODE, Happening.CLAIM_FREED}
    assert news.take() == frozenset()


def test_what_happens_after_the_last_look_is_no_reason_to_wait() -> None:
    news = News()
    news.take()
    news.happened(Happening.NODE)
    assert not news.looked()
    news.take()
    assert news.looked()


def test_who_waits_is_woken_by_what_happens_and_by_what_is_to_do() -> None:
    async def scenario() -> None:
        for tell in (lambda news: news.happened(Happening.NODE), News.wake):
            news = News()
            news.looked()
            waiting = asyncio.ensure_future(news.wait())
            await asyncio.sleep(0)
            assert not waiting.done()
            tell(news)
            await asyncio.wait_for(waiting, 1)

    idle.run(scenario())
