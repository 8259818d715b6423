"""Lists: paging, revisions, expired and future revisions."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.reads import paging
from tests.unit.apiserver.served import MAPS, DecodedResponse, Served, config_map


def _names(response: DecodedResponse) -> list[str]:
    return [item["metadata"]["name"] for item in response.body["items"]]


async def _with_config_maps(count: int = 7) -> Served:
    served = await Served().started()
    for number in range(count):
        await served.post(MAPS, config_map(f"m{number}", {"odd": str(number % 2)}))
    return served


def test_items_have_no_kind() -> None:
    async def scenario() -> None:
        response = await (await _with_config_maps(1)).get(MAPS)
        assert list(response.body) == ["kind", "apiVersion", "metadata", "items"]
        assert response.body["kind"] == "ConfigMapList"
        assert list(response.body["items"][0]) == ["metadata"]

    asyncio.run(scenario())


@given(st.integers(1, 8), st.booleans())
def test_all_pages_show_the_same_revision(limit: int, everywhere: bool) -> None:
    async def scenario() -> None:
        served = await _with_config_maps()
        path = "/api/v1/configmaps" if everywhere else MAPS
        whole = _names(await served.get(path))
        found: list[str] = []
        token = ""
        while True:
            response = await served.get(f"{path}?limit={limit}&continue={token}")
            found += _names(response)
            token = response.body["metadata"].get("continue", "")
            assert response.body["metadata"].get("remainingItemCount", 0) == len(whole) - len(found)
            if not token:
                break
            await served.delete(f"{MAPS}/{whole[-1]}")
            await served.post(MAPS, config_map("m0a"))
        assert found == whole

    asyncio.run(scenario())


def test_remaining_items_are_unknown_with_a_selector() -> None:
    async def scenario() -> None:
        served = await _with_config_maps()
        response = await served.get(f"{MAPS}?limit=2&labelSelector=odd%3D0")
        assert _names(response) == ["m0", "m2"]
        assert "remainingItemCount" not in response.body["metadata"]
        token = response.body["metadata"]["continue"]
        response = await served.get(f"{MAPS}?limit=5&labelSelector=odd%3D0&continue={token}")
        assert _names(response) == ["m4", "m6"]

    asyncio.run(scenario())


def test_list_at_an_old_revision() -> None:
    async def scenario() -> None:
        served = await _with_config_maps(2)
        then = (await served.get(MAPS)).body["metadata"]["resourceVersion"]
        await served.delete(f"{MAPS}/m0")
        exact = await served.get(f"{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")
        assert (_names(exact), exact.body["metadata"]["resourceVersion"]) == (["m0", "m1"], then)
        assert _names(await served.get(f"{MAPS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan")) == ["m1"]
        served.store.compact(served.store.revision)
        gone = await served.get(f"{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")
        assert (gone.code, gone.body["reason"]) == (410, "Expired")

    asyncio.run(scenario())


def test_an_expired_token_returns_a_new_token() -> None:
    async def scenario() -> None:
        served = await _with_config_maps(4)
        token = (await served.get(f"{MAPS}?limit=2")).body["metadata"]["continue"]
        await served.delete(f"{MAPS}/m2")
        served.store.compact(served.store.revision)
        gone = await served.get(f"{MAPS}?limit=2&continue={token}")
        assert (gone.code, gone.body["reason"]) == (410, "Expired")
        rest = await served.get(f"{MAPS}?limit=2&continue={gone.body['metadata']['continue']}")
        assert _names(rest) == ["m3"]

    asyncio.run(scenario())


def test_a_future_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "_REVISION_TIMEOUT", 0.02)
    monkeypatch.setattr(paging, "_POLL_INTERVAL", 0.01)

    async def scenario() -> None:
        served = await _with_config_maps(1)
        for path in (MAPS, f"{MAPS}/m0"):
            response = await served.get(f"{path}?resourceVersion=99999")
            assert (response.code, response.body["reason"]) == (504, "Timeout")
            assert ("retry-after", "1") in response.headers

    asyncio.run(scenario())


_TOKEN = "invalid continue token: continue key is not valid"
_LIST = 'ListOptions.meta.k8s.io "" is invalid'
_MATCH = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
_PARSING = 'strconv.ParseUint: parsing "abc": invalid syntax'


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("resourceVersion=abc", 500, f'resourceVersion: Invalid value: "abc": {_PARSING}'),
        ("continue=zzz", 400, f"{_TOKEN}: invalid character 'Ï' looking for beginning of value"),
        ("continue=e30", 400, f'{_TOKEN}: server does not recognize this encoded version ""'),
        ("resourceVersionMatch=Exact", 422, f"{_LIST}: {_MATCH}"),
        (
            "sendInitialEvents=true", 422,
            f"{_LIST}: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
    ],
)  # fmt: skip
def test_invalid_list_options(query: str, code: int, message: str) -> None:
    async def scenario() -> None:
        response = await (await _with_config_maps(1)).get(f"{MAPS}?{query}")
        assert (response.code, response.message) == (code, message)

    asyncio.run(scenario())
