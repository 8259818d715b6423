"""From the first page to the cause and to a change that works: two clicks at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from selenium.webdriver import Keys

from allotment.api.cluster import Cluster
from allotment.explanation import Answer
from tests.corpus import test_corpus as corpus
from tests.corpus.mixed import test_mixed as mixed
from tests.web.browser.chromium import Browser
from tests.web.browser.served import page_over

#: The causes that Kubernetes reports as "cannot allocate all claims".
CAUSES: Final = corpus.REQUIRED[:13]
#: Worlds in which several things are wrong, and changes of objects help: every fourth.
WORLDS: Final = [name for name in mixed.WORLDS if mixed.expected(name).changes and not mixed.expected(name).says][::4][
    :20
]


def cluster_of(scenario: corpus.Scenario, name: str) -> Cluster:
    gates = [f"{gate}={str(is_on).lower()}" for gate, is_on in scenario.features.gates.items()]
    return Cluster.snapshot(corpus.HERE / f"{name}.yaml", kube=scenario.features.kube, gates=",".join(gates))


def first_refused(scenario: corpus.Scenario) -> Answer:
    return next(answer for answer in scenario.explain().answers if answer.reasons is not None)


def with_the_pointer(browser: Browser, text: str, place: str) -> None:
    browser.click(text, place)


def with_the_keyboard(browser: Browser, text: str, place: str) -> None:
    browser.sees(text, place)
    browser.tab_to(text)
    browser.keys(Keys.ENTER)


def reach(browser: Browser, name: str, choose: Callable[[Browser, str, str], None]) -> None:
    """Open the first page, choose the cause, and try the first remedy that can be tried."""
    scenario = corpus.Scenario(name)
    refused = first_refused(scenario)
    assert refused.reasons is not None
    headline = refused.reasons.headline
    with page_over(cluster_of(scenario, name)) as served:
        browser.show(served.address)
        browser.sees(headline.summary, ".strip")
        choose(browser, headline.summary, ".strip")
        browser.sees(headline.code, ".detail")
        browser.sees(headline.summary, ".detail h2")
        for change in headline.changes:
            browser.sees(change.text, ".remedies")
        if browser.count(".remedy button.primary"):
            choose(browser, "Try it", ".remedies")
            browser.sees("It fits", ".trial")
        else:  # an administrator must act first, or no change is known
            assert not all(change.path for change in headline.changes) or not headline.changes
            assert name in CAUSES
        assert browser.clicks <= 2
        assert browser.errors() == []


def test_there_are_twenty_worlds() -> None:
    assert len(CAUSES) == 13
    assert len(WORLDS) == 20


@pytest.mark.parametrize("name", CAUSES)
def test_cause_and_change_are_two_clicks_away(browser: Browser, name: str) -> None:
    reach(browser, name, with_the_pointer)


@pytest.mark.parametrize("choose", [with_the_pointer, with_the_keyboard])
@pytest.mark.parametrize("name", WORLDS)
def test_of_several_mistakes_the_first_remedy_is_two_clicks_away(
    browser: Browser, name: str, choose: Callable[[Browser, str, str], None]
) -> None:
    reach(browser, f"mixed/{name}", choose)
