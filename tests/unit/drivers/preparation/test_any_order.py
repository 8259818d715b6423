"""Hardware, CDI files and checkpoint stay consistent in any order of calls, failures and restarts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.cdi.store import MemoryStore
from allotment.drivers.host import MemoryStorage
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import DRIVER, FakeDriver, memory_host, node_driver, put_claim

#: Two claims for gpu-0, which conflict.
DEVICES = ("gpu-0", "gpu-0", "gpu-1", "gpu-2")
CLAIM = st.integers(0, len(DEVICES) - 1)
STEPS: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.just("prepare"), st.sets(CLAIM, min_size=1)),
    st.tuples(st.just("unprepare"), st.sets(CLAIM, min_size=1)),
    st.tuples(st.just("break"), st.sets(st.sampled_from(["prepare", "unprepare"]))),
    st.tuples(st.just("restart"), st.just(frozenset())),
)


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=14))
def test_hardware_files_and_checkpoint_are_consistent(steps: list[tuple[str, Any]]) -> None:
    async def main() -> None:
        client, driver, storage, cdi = MemoryClient(), FakeDriver(), MemoryStorage(), MemoryStore()
        host = memory_host(storage=storage, cdi=cdi)
        refs = [put_claim(client, f"c{n}", device) for n, device in enumerate(DEVICES)]
        plugin = node_driver(driver, host, client, status=False)
        await plugin.recover()
        for verb, targets in steps:
            if verb == "break":
                driver.fail_at = set(targets)
            elif verb == "restart":
                plugin = node_driver(driver, host, client, status=False)
                await plugin.recover()
            else:
                chosen = [refs[n] for n in sorted(targets)]
                if verb == "prepare":
                    prepared = await plugin.prepare(chosen)
                    for ref in chosen:
                        if not prepared[ref.uid].error:
                            assert driver.in_use[prepared[ref.uid].devices[0].device] == ref.uid
                else:
                    undone = await plugin.unprepare(chosen)
                    for ref in chosen:
                        if not undone[ref.uid]:
                            assert ref.uid not in driver.in_use.values()
            entries = json.loads(storage.data or b"{}")["claims"]
            completed = {uid for uid, entry in entries.items() if entry["state"] == "completed"}
            assert completed <= set(driver.in_use.values()) <= set(entries)
            assert {f"k8s.{DRIVER}-claim_{uid}" for uid in completed} <= cdi.names()
            assert cdi.names() <= {f"k8s.{DRIVER}-claim_{uid}" for uid in entries}
        driver.fail_at = set()
        assert set((await plugin.unprepare(refs)).values()) == {""}
        assert (driver.in_use, cdi.names(), json.loads(storage.data or b"{}")["claims"]) == ({}, frozenset(), {})

    asyncio.run(main())
