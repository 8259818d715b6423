"""The tools that only read answer everything, and say nothing of what they may not read."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from pathlib import Path

from allotment.cli.main import main
from allotment.cluster.resources import CLAIMS, PODS
from tests.kube.permitted.ground import Account, Ground, there
from tests.kube.permitted.playing import until
from tests.kube.permitted.scheduling import claim, pod


async def play(ground: Ground, account: Account) -> None:
    """All of them; those that read most come first."""
    name = f"read-{ground.mark()}"
    config = ground.server.kubeconfig_of(account.name, account.target.token)
    async with ground.client() as admin, there(
        admin, (CLAIMS, claim(name, 9)), (PODS, pod(name, name, schedulerName="none"))
    ):  # fmt: skip
        await _tool(config, "snapshot")
        await _tool(config, "doctor")
        # It does not fit, so explain and plan end with 1; what is wrong with this cluster is not asked here.
        for words in (("explain", f"pod/{name}"), ("free",), ("plan", "--catalog", "aws", "--seconds", "0")):
            await _tool(config, *words)
        await _check(config, ground.server.folder / "checked.yaml")
        await _watched(ground, account, config)


async def _check(config: Path, file: Path) -> None:
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n")
    await _tool(config, "check", str(file))


async def _tool(config: Path, *words: str) -> None:
    """One tool, as somebody runs it; what it says of things that it may not read is a failure."""
    output = io.StringIO()

    def run() -> int:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            return main([words[0], *words[1:], "--kubeconfig", str(config), "--context", "real"])

    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        code = await asyncio.shield(running)
    except asyncio.CancelledError:
        await running  # it has what is printed, so nothing else may begin
        raise
    if code not in (0, 1) or "may not be read" in output.getvalue() or "not read, so" in output.getvalue():
        raise AssertionError(f"allot {' '.join(words)}: {code}\n{output.getvalue()}")


async def _watched(ground: Ground, account: Account, config: Path) -> None:
    """``explain --watch`` of a workload follows everything; it runs until somebody ends it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "allotment.cli.main", "explain", "deployment/none", "--watch", "--kubeconfig",
        str(config), "--context", "real", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip

    async def follows() -> bool:
        watched = {one.resource for one in ground.asked_by(account) if one.verb == "watch" and not one.refused}
        return {"pods", "deployments", "podgroups", "resourceclaims", "resourceslices"} <= watched

    try:
        await until(follows)
        await asyncio.sleep(0.2)
    finally:
        process.terminate()
        await process.wait()
