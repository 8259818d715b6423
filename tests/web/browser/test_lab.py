"""In a lab, the page shows its history, and can apply, delete and break things."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver import Keys

from allotment.api.cluster import Cluster
from allotment.lab.lab import Lab
from allotment.watched.cluster import WatchedCluster
from tests.web.browser.chromium import Browser
from tests.web.browser.served import ServedCluster, page_over

_MANIFEST = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: applied}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
  containers: [{name: main, image: registry.k8s.io/pause:3.10, resources: {claims: [{name: gpu}]}}]
"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[ServedCluster]:
    with Lab("t4-4x-pcie:1") as lab:
        watched = WatchedCluster.of(Cluster.lab(lab), is_lab=True)
        with page_over(watched) as served:
            browser.show(served.address)
            browser.sees("4 devices")
            yield served


def test_what_is_applied_appears_in_map_and_history(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/history"))
    browser.type(".apply", _MANIFEST)
    browser.click("Apply", ".history-side")
    browser.sees("Pod applied is applied", ".action-told")
    browser.sees("created", ".revisions")
    browser.sees("in use", ".side")
    browser.one(".slider input").send_keys(Keys.HOME)
    browser.sees("As it was at", ".slider")
    browser.sees_no("in use", ".side")
    assert browser.findings() == []
    browser.one(".slider input").send_keys(Keys.END)
    browser.sees("Now", ".slider")
    browser.sees("in use", ".side")


def test_an_invalid_manifest_is_reported(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/history"))
    browser.type(".apply", "kind: Pod")
    browser.click("Apply", ".history-side")
    browser.sees("manifest.yaml", ".action-told")


def test_a_device_can_be_unplugged_and_plugged_in_again(browser: Browser, page: ServedCluster) -> None:
    device = page.view.free.nodes[0].devices[3]
    browser.show(page.at(f"/objects/device/{device.pool}/{device.device}"))
    browser.click("Unplug")
    browser.sees("is unplugged", ".action-told")
    browser.sees("no device", ".problem")
    browser.click("Plug in again")
    browser.sees("is plugged in again", ".action-told")
    browser.sees_no("no device")


def test_a_device_can_be_tainted(browser: Browser, page: ServedCluster) -> None:
    device = page.view.free.nodes[0].devices[2]
    browser.show(page.at(f"/objects/device/{device.pool}/{device.device}"))
    browser.click("Taint")
    browser.sees("is tainted", ".action-told")
    browser.sees("tainted", ".lead")
    browser.click("Remove the taint")
    browser.sees("no longer tainted", ".action-told")
    browser.sees("free", ".lead")


def test_an_object_is_deleted_after_a_second_press(browser: Browser, page: ServedCluster) -> None:
    browser.show(page.at("/objects/pod/default/applied"))
    browser.click("Delete")
    browser.click("Delete applied for good")
    browser.sees("is deleted", ".action-told")
    browser.show(page.at("/map"))
    browser.sees_no("in use", ".side")
