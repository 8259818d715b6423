"""Every task with the keyboard alone: the focus is always visible, nothing traps it, and no answer needs a pointer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from selenium.webdriver import Keys

from allotment.api.cluster import Cluster
from allotment.lab.lab import Lab
from allotment.watched.cluster import WatchedCluster
from tests.web.browser.chromium import Browser
from tests.web.browser.served import ServedCluster, page_over
from tests.web.browser.worlds import QUESTION, team_cluster

PATHS: Final = (
    "/map?q=node:h100", "/map?view=table", "/map?size=tiny", "/map?q=node:h100&device=h100%2Fgpu-0", "/pending", "/ask",
    "/ask?on=fleet", "/objects?q=kind:claim", "/objects/pod/team-a/big-0", "/objects/device/dgx/gpu-0-mig-3g20gb-9-0",
    "/what-if?change=remove:h100", "/money", "/history",
)  # fmt: skip
#: The most that a reader passes from the first to the last stop of one of these pages.
MOST_STOPS: Final = 160


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[ServedCluster]:
    with page_over(team_cluster()) as served:
        browser.show(served.address)
        yield served


@pytest.mark.parametrize("path", PATHS)
def test_the_focus_is_visible_and_reaches_everything(browser: Browser, page: ServedCluster, path: str) -> None:
    browser.show(page.at(path))
    missed = set(browser.focusable())
    for _ in range(MOST_STOPS):
        if browser.focused() == "Manifest, YAML":
            browser.keys(Keys.ESCAPE)  # leaves the editor, in which the tabulator key indents
        browser.keys(Keys.TAB)
        if not browser.focused():  # after the last one
            break
        browser.sees_the_focus()
        missed.discard(browser.focused())
    assert not missed, f"not reached: {missed}"


def test_the_first_stop_skips_the_navigation(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/objects"))
    browser.keys(Keys.TAB, Keys.ENTER, Keys.TAB)
    assert "allot free" in browser.focused()


# --- map --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["large", "tiny"])
def test_a_device_of_the_map_leads_to_its_page(browser: Browser, page: ServedCluster, size: str) -> None:
    browser.show(page.at(f"/map?size={size}&q=node:h100"))
    browser.tab_to("h100: gpu-0" if size == "large" else "Arrow keys move between devices")
    browser.keys(Keys.ARROW_RIGHT, Keys.ENTER)
    browser.sees("solver-6", ".inspector.pinned")
    browser.keys(Keys.ENTER)
    browser.sees("device h100/gpu-1", "h1")
    assert "h100/gpu-1" in browser.focused()


def test_the_map_is_searched_filtered_and_shown_as_a_table(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map"))
    browser.keys("/", "product:T4")
    browser.sees("8 devices on 2 nodes match", ".search-told")
    browser.tab_to("drawing")
    browser.keys("t")
    browser.sees("team-b/embedder", "table")
    browser.show(page.at("/map"))
    browser.tab_to("team-a")
    browser.keys(" ")
    browser.sees("3 devices on 1 node match", ".search-told")
    assert "team-a" in browser.focused()


# --- pending ----------------------------------------------------------------------------------------------------------


def test_a_group_far_down_the_list_is_two_stops_from_its_remedy(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/pending"))
    browser.tab_to("DeviceClass")
    browser.keys(Keys.ENTER)
    browser.sees("class-missing", ".detail")
    browser.sees("Try it", ".remedies")
    assert "DeviceClass" in browser.focused()
    browser.tab_to("Try it", 5)
    browser.keys(Keys.ENTER)
    browser.sees("It", ".trial-sentence")


def test_the_reasons_of_other_nodes_open(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/pending"))
    browser.tab_to("ended by selector")
    browser.keys(Keys.ENTER)
    browser.one("details[open] .funnel")


def test_a_command_is_copied(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/money"))
    browser.tab_to("Copy as command: allot plan")
    browser.keys(Keys.ENTER)
    browser.one(".told:not(:empty)")


# --- editor -----------------------------------------------------------------------------------------------------------


def test_a_manifest_is_written_and_fixed(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/ask"))
    browser.one(".editor")
    browser.tab_to("Manifest, YAML")
    browser.keys(Keys.CONTROL + "a")
    browser.insert(QUESTION.replace("CLASS", "gpu.nvidia.con"))
    browser.sees("candidate does not fit", ".answer")
    browser.keys(Keys.ESCAPE)
    browser.tab_to("Fix: ")
    browser.keys(Keys.ENTER)
    browser.sees("candidate fits on", ".answer")


def test_another_place_is_chosen_with_the_arrow_keys(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/ask"))
    browser.tab_to("this cluster")
    browser.keys(Keys.ARROW_RIGHT)
    browser.tab_to("Fleet")
    browser.keys(Keys.CONTROL + "a")
    browser.keys("t4-4x-pcie", Keys.ENTER)
    browser.sees("does not fit", ".answer")


# --- objects, what-if, money ------------------------------------------------------------------------------------------


def test_an_object_is_found_and_opened(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/objects"))
    browser.keys("/", "trainer-0")
    browser.sees_no("solver", ".objects-table")
    browser.tab_to("team-a/trainer-0-gpu")
    browser.keys(Keys.ENTER)
    browser.sees("claim team-a/trainer-0-gpu", "h1")
    assert "trainer-0-gpu" in browser.focused()
    browser.tab_to("gpu-0-mig-3g20gb-9-0")
    browser.keys(Keys.ENTER)
    browser.sees("device", "h1")


def test_a_change_is_assumed_and_removed(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/what-if"))
    browser.tab_to("Drain a node")
    browser.keys("r", Keys.TAB, "h100", Keys.ENTER)
    browser.sees("remove h100", ".assumed")
    browser.sees("research/solver-6", ".rows")
    browser.tab_to("Do not assume")
    browser.keys(Keys.ENTER)
    browser.sees("Nothing is assumed yet")


def test_a_plan_is_made(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/money"))
    browser.tab_to("Plan the cheapest machines")
    browser.keys(Keys.ENTER)
    browser.sees("USD/h", ".plan")


# --- lab --------------------------------------------------------------------------------------------------------------


def test_a_lab_is_changed_and_its_time_moved(browser: Browser) -> None:
    with Lab("t4-4x-pcie:1") as lab, page_over(WatchedCluster.of(Cluster.lab(lab), is_lab=True)) as served:
        browser.show(served.address)
        browser.sees("4 devices")
        browser.show(served.at("/history"))
        browser.tab_to("Manifests to apply")
        browser.insert(QUESTION.replace("CLASS", "gpu.nvidia.com"))
        browser.keys(Keys.TAB, Keys.ENTER)
        browser.sees("Pod candidate is applied", ".action-told")
        browser.sees("in use", ".side")
        browser.tab_to("Time")
        browser.keys(Keys.HOME)
        browser.sees("As it was at", ".slider")
        browser.sees_no("in use", ".side")
        browser.keys(Keys.END)
        browser.sees("Now", ".slider")
        browser.show(served.at("/objects/pod/default/candidate"))
        browser.tab_to("Delete")
        browser.keys(Keys.ENTER, Keys.ENTER)
        browser.sees("is deleted", ".action-told")


# --- notices ----------------------------------------------------------------------------------------------------------


def test_the_token_is_entered(browser: Browser) -> None:
    with page_over(team_cluster()) as served:
        browser.show(served.at("/map") + "?token=wrong")
        browser.tab_to("Token")
        browser.keys(served.address.partition("token=")[2], Keys.ENTER)
        browser.sees("cards have room")


def test_the_theme_is_chosen(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map"))
    browser.tab_to("Colours: system")
    browser.keys(Keys.ENTER, Keys.ENTER)
    assert browser.one("html").get_attribute("data-theme") == "dark"
    browser.keys(Keys.ENTER)
    assert browser.one("html").get_attribute("data-theme") is None
