"""The tasks of users on each page, with the mouse and with the keyboard only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from selenium.webdriver import ActionChains, Keys

from allotment.api.cluster import Cluster
from allotment.api.clusters.source import ClusterOrigin
from allotment.watched.cluster import WatchedCluster, view_of
from tests.web.browser.chromium import Browser
from tests.web.browser.served import ServedCluster, page_over
from tests.web.browser.worlds import QUESTION, pending_pod, team_cluster

#: The device of team-a's trainer, and the others that light up with it.
TRAINER = '.piece[data-device="gpu-0-mig-3g20gb-9-0"]'
OTHER = '.piece[data-device="gpu-1-mig-3g20gb-9-4"]'


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[ServedCluster]:
    with page_over(team_cluster()) as served:
        browser.show(served.address)
        yield served


# --- map --------------------------------------------------------------------------------------------------------------


def test_pointing_at_a_device_lights_up_its_claim_and_its_workload(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map"))
    ActionChains(browser.driver).move_to_element(browser.one(TRAINER)).perform()
    browser.sees("trainer-0", ".inspector")
    browser.one(f"{TRAINER}.lit-claim")
    browser.one(f"{OTHER}.lit:not(.lit-claim)")
    assert browser.count(".piece.lit") == 2
    assert "2 devices on 1 node" in browser.text(".inspector")


def test_a_chosen_device_is_part_of_the_link(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map"))
    browser.one(TRAINER).click()
    browser.sees("trainer-0-gpu", ".inspector.pinned")
    browser.show(browser.driver.current_url)
    browser.sees("trainer-0-gpu", ".inspector.pinned")
    browser.one(TRAINER).send_keys(Keys.ESCAPE)
    browser.sees_no("trainer-0-gpu", ".inspector")


def test_a_search_filters_the_map_and_is_part_of_the_link(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map"))
    browser.press("/")
    browser.press("ns:team-b product:T4")
    browser.sees("3 devices on 2 nodes match", ".search-told")
    assert browser.count(".node") == 2
    assert "q=ns" in browser.driver.current_url
    browser.type("[data-search]", "free>7 product:A100")
    browser.sees("1 node match", ".search-told")
    browser.type("[data-search]", "colour:red")
    browser.sees("is not known", ".search-told")


def test_the_legend_filters(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map"))
    browser.click("team-a", ".side")
    browser.sees("3 devices on 1 node match", ".search-told")
    browser.click("team-a", ".side")
    browser.sees_no("match", ".search-told")


def test_the_arrow_keys_move_over_the_devices(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map?group=none&q=node:h100"))
    browser.tab_to("h100: gpu-0")
    browser.press(Keys.ARROW_RIGHT)
    assert "h100: gpu-1" in browser.focused()
    browser.press(Keys.ARROW_DOWN)
    assert "h100: gpu-5" in browser.focused()
    browser.press(Keys.ENTER)
    browser.sees("solver-6", ".inspector.pinned")
    browser.press(Keys.HOME)
    assert "h100: gpu-0" in browser.focused()


def test_the_tiny_map_has_a_keyboard_and_a_voice(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map?size=tiny&q=node:h100"))
    browser.tab_to("Arrow keys move between devices")
    browser.press(Keys.ARROW_RIGHT)
    browser.sees("gpu-1", ".inspector")
    browser.press(Keys.ENTER)
    browser.sees("solver-6", ".inspector.pinned")


# --- pending ----------------------------------------------------------------------------------------------------------


def test_the_keyboard_alone_leads_from_the_map_to_a_change_that_works(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map"))
    browser.sees("DeviceClass", ".strip")
    browser.tab_to("DeviceClass")
    browser.press(Keys.ENTER)
    browser.sees("use class gpu.nvidia.com", ".remedies")
    browser.tab_to("Try it")
    browser.press(Keys.ENTER)
    browser.sees("gpu.nvidia.com", ".trial .diff-added")
    browser.sees("gpu.nvidia.con", ".trial .diff-removed")


def test_the_funnel_ends_with_the_step_that_excluded_the_last_device(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/pending"))
    browser.sees("every matching device is in use", ".detail h2")
    assert browser.texts(".step-end .step-name")[0] == "in use"
    browser.click("research/solver-6-gpu", ".step-end")
    browser.sees("research/solver-6-gpu", "h1")


def test_groups_have_links(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/pending"))
    browser.click("DeviceClass", ".groups")
    browser.sees("class-missing", ".detail")
    browser.show(browser.driver.current_url)
    browser.sees("class-missing", ".detail")


# --- editor -----------------------------------------------------------------------------------------------------------

_EDIT = """
const root = document.querySelector(".editor").shadowRoot;
const content = root.querySelector(".cm-content");
content.focus();
document.execCommand("selectAll");
"""


def _edit(browser: Browser, text: str) -> None:
    browser.one(".editor")
    browser._until(  # the editor is loaded when it is needed
        lambda: bool(browser.driver.execute_script(
            "return document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content') ?? null"
        )),
        "the editor",
    )  # fmt: skip
    browser.driver.execute_script(_EDIT)
    browser.driver.execute_cdp_cmd("Input.insertText", {"text": text})
    browser.settle()


def test_a_mistake_is_marked_and_fixed(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/ask"))
    _edit(browser, QUESTION.replace("CLASS", "gpu.nvidia.con"))
    browser.sees("candidate does not fit", ".answer")
    browser.sees("gpu.nvidia.con", ".finding")
    browser.click("Fix", ".findings")
    browser.sees("candidate fits on", ".answer")
    browser.show(browser.driver.current_url)  # the link holds the whole question
    browser.sees("candidate fits on", ".answer")


def test_the_same_question_on_a_fleet_and_as_a_plan(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/ask"))
    _edit(browser, QUESTION.replace("CLASS", "gpu.amd.com"))
    browser.click("a fleet", ".segments")
    browser.type(".fleet input", "mi300x-8x-oam" + Keys.ENTER)
    browser.sees("candidate fits on mi300x", ".answer")
    browser.click("no hardware: plan", ".segments")
    browser.sees("USD/h", ".answer")


def test_what_is_typed_stays_when_an_answer_arrives(browser: Browser) -> None:
    with page_over(team_cluster()) as served:
        browser.show(served.address)
        browser.show(served.at("/ask?on=fleet"))
        browser.type(".fleet input", "mi300x")
        served.publish(replace(served.view, revision=served.view.revision + 1, name="renamed"))
        browser.sees("renamed", ".where")
        assert browser.one(".fleet input").get_property("value") == "mi300x"


def test_broken_yaml_is_reported_with_its_line(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/ask"))
    _edit(browser, "kind: Pod\nmetadata: {name: [\n")
    browser.sees("cannot be read", ".ask-answer")
    browser.sees("line", ".ask-answer button")
    assert browser.findings() == []


# --- objects, what-if, money ------------------------------------------------------------------------------------------


def test_objects_refer_to_each_other(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/objects"))
    browser.click("claim", ".kinds")
    browser.click("trainer-0-gpu", ".objects-table")
    browser.sees("team-a/trainer-0-gpu", "h1")
    browser.click("gpu-0-mig-3g20gb-9-0", ".references")
    browser.sees("gpu-0-mig-3g20gb-9-0", "h1")
    browser.sees("in use", ".lead")


def test_a_pending_pod_leads_to_its_cause(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/objects/pod/team-b/typo-1"))
    browser.click("Why it is pending")
    browser.sees("class-missing", ".detail")


def test_assumed_changes_show_which_pods_are_stranded(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/what-if"))
    browser.type(".change-form input", "h100" + Keys.ENTER)
    browser.sees("lose", ".figures")
    browser.sees("research/solver-6", ".rows")
    assert "change=drain" in browser.driver.current_url
    browser.click("Do not assume", ".assumed")
    browser.sees("Nothing is assumed yet")


def test_the_totals_of_the_changed_nodes_are_theirs(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/what-if?change=drain:h100"))
    browser.sees("after the change", ".after h2")
    counts = browser.texts(".after .legend button")
    assert any("on an unschedulable node" in each and each.endswith("8") for each in counts)
    assert not any(each.startswith("free") for each in counts)


def test_a_snapshot_has_no_command_that_changes_a_cluster(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/what-if?change=drain:h100"))
    browser.sees("lose", ".figures")
    assert browser.count(".command") == 0
    browser.show(page.at("/pending"))
    browser.click("Try it", ".remedies")
    browser.sees("fits", ".trial")
    assert not any("kubectl" in each for each in browser.texts(".command code"))


def test_a_command_that_changes_the_cluster_names_it_and_says_so(browser: Browser) -> None:
    origin = ClusterOrigin("cluster", context="prod")
    with page_over(WatchedCluster(replace(view_of(team_cluster()), place="cluster", origin=origin))) as served:
        browser.show(served.address)
        browser.show(served.at("/what-if?change=drain:h100"))
        browser.sees("kubectl --context prod drain h100", ".command code")
        browser.sees("Command that makes this change", ".command")


def test_without_a_cluster_manifests_are_tried_on_other_hardware(browser: Browser) -> None:
    with page_over(Cluster()) as served:
        browser.show(served.address)
        browser.show(served.at("/ask"))
        browser.sees("no hardware: plan", ".segments")
        assert browser.texts(".segments label") == ["a fleet", "a snapshot", "no hardware: plan"]
        assert browser.text(".where").strip().startswith("no cluster · Kubernetes")
        browser.show(served.at("/map"))
        assert browser.count(".command") == 0


def test_an_impossible_change_is_reported(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/what-if?change=drain:missing"))
    browser.sees("missing", ".problem")


def test_the_theme_can_be_chosen(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/map"))
    for theme in ("light", "dark"):
        browser.click("Colours", ".bar")
        assert browser.one("html").get_attribute("data-theme") == theme
    browser.show(page.at("/map"))
    assert browser.one("html").get_attribute("data-theme") == "dark"
    browser.click("Colours", ".bar")


# --- changes of the cluster -------------------------------------------------------------------------------------------


def test_a_change_of_the_cluster_appears_by_itself(browser: Browser) -> None:
    with page_over(team_cluster()) as served:
        browser.show(served.address)
        browser.sees("6 pods pending", ".strip")
        served.become(team_cluster(pending_pod("team-b", "typo-3", "typo")))
        browser.sees("7 pods pending", ".strip")


def test_the_last_state_of_a_cluster_that_does_not_respond_stays_visible(browser: Browser) -> None:
    with page_over(team_cluster()) as served:
        browser.show(served.address)
        browser.sees("cards have room")
        view = served.view
        served.publish(
            replace(view, revision=view.revision + 1, connected=False, seen_at="2026-11-02T08:00:00Z", error="refused")
        )
        browser.sees("The cluster does not respond", ".banner")
        browser.sees("old", ".banner")
        browser.sees("refused", ".banner")
        browser.sees("cards have room")
        assert browser.findings() == []
        served.publish(replace(view, revision=view.revision + 2))
        browser.sees_no("does not respond", ".banners")


def test_a_server_that_ends_is_reported(browser: Browser) -> None:
    with page_over(team_cluster()) as served:
        browser.show(served.address)
        browser.sees("cards have room")
    browser.sees("The server does not respond", ".banner")
    browser.sees("cards have room")


def test_more_pages_than_a_browser_has_connections_are_current_when_visible(browser: Browser) -> None:
    with page_over(team_cluster()) as served:
        browser.show(served.address)
        first = browser.driver.current_window_handle
        others = []
        for _ in range(7):
            browser.driver.switch_to.new_window("tab")
            others.append(browser.driver.current_window_handle)
            browser.driver.get(served.at("/map"))
            browser.sees("6 pods pending", ".strip")
        served.become(team_cluster(pending_pod("team-b", "typo-3", "typo")))
        browser.sees("7 pods pending", ".strip")
        for handle in others:
            browser.driver.switch_to.window(handle)
            browser.driver.close()
        browser.driver.switch_to.window(first)
        browser.sees("7 pods pending", ".strip")
