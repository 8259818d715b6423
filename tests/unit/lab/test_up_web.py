"""``allot up --web``: the page of a lab, from its start to its end."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request

import pytest

from allotment.cli.main import main
from tests.unit.lab.test_up import Allot, allot, environment

__all__ = ["allot", "environment"]


def page(address: str) -> dict[str, object]:
    base, _, token = address.partition("/?token=")
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{base}/map", headers=headers), timeout=60) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def test_the_page_starts_and_ends_with_a_detached_lab(allot: Allot) -> None:
    started = allot("up", "--detach", "--http", "--ephemeral", "--web", "--fleet", "t4-4x-pcie:2")
    assert started.returncode == 0, started.stderr
    found = re.search(r"^  page     (http://127\.0\.0\.1:\d+/\?token=[\w-]+)$", started.stdout, re.MULTILINE)
    assert found is not None, started.stdout
    address = found[1]
    (lab,) = json.loads(allot("status", "-o", "json").stdout)["labs"]
    assert lab["web"] == address
    assert address in allot("status", "-o", "wide").stdout
    assert address not in allot("status").stdout, "it contains a token"
    cluster = page(address)["cluster"]
    assert isinstance(cluster, dict)
    assert (cluster["place"], cluster["isReadOnly"]) == ("lab", False)
    assert allot("down").returncode == 0
    with pytest.raises(urllib.error.URLError):
        page(address)


def test_a_lab_without_the_option_has_no_page(allot: Allot) -> None:
    started = allot("up", "--detach", "--http", "--ephemeral", "--fleet", "t4")
    assert "  page " not in started.stdout
    (lab,) = json.loads(allot("status", "-o", "json").stdout)["labs"]
    assert "web" not in lab


def test_the_demo_serves_only_a_lab(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "9", "--web"]) == 2
    assert "--web: requires a lab" in capsys.readouterr().err
