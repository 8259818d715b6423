"""The read-only tools print every answer and no warnings about missing permissions."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from pathlib import Path

from allotment.cli.main import main
from allotment.cluster.resources import CLAIMS, PODS
from tests.kube.permissions.environment import Account, ScenarioCluster, temporary_objects
from tests.kube.permissions.runner import wait_until
from tests.kube.permissions.scheduler import claim, pod


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run all tools, those that read most first."""
    name = f"read-{cluster.unique_name()}"
    config = cluster.server.kubeconfig_of(account.name, account.target.token)
    async with cluster.client() as admin, temporary_objects(
        admin, (CLAIMS, claim(name, 9)), (PODS, pod(name, name, schedulerName="none"))
    ):  # fmt: skip
        await _run_tool(config, "snapshot")
        await _run_tool(config, "doctor")
        # The pod does not fit, so explain and plan end with 1; the doctor's findings on this cluster do not matter
        # here.
        for arguments in (("explain", f"pod/{name}"), ("free",), ("plan", "--catalog", "aws", "--seconds", "0")):
            await _run_tool(config, *arguments)
        await _check(config, cluster.server.folder / "checked.yaml")
        await _check_watch(cluster, account, config)


async def _check(config: Path, file: Path) -> None:
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n")
    await _run_tool(config, "check", str(file))


async def _run_tool(config: Path, *arguments: str) -> None:
    """Run one tool as a user does; a warning about a missing permission is a failure."""
    output = io.StringIO()

    def complete() -> int:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            return main([arguments[0], *arguments[1:], "--kubeconfig", str(config), "--context", "real"])

    running = asyncio.ensure_future(asyncio.to_thread(complete))
    try:
        code = await asyncio.shield(running)
    except asyncio.CancelledError:
        await running  # the output is complete, so no further request may start
        raise
    if code not in (0, 1) or "access was denied" in output.getvalue() or "not read, so" in output.getvalue():
        raise AssertionError(f"allot {' '.join(arguments)}: {code}\n{output.getvalue()}")


async def _check_watch(cluster: ScenarioCluster, account: Account, config: Path) -> None:
    """``explain --watch`` of a workload watches everything; it runs until it is interrupted."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "allotment.cli.main", "explain", "deployment/none", "--watch", "--kubeconfig",
        str(config), "--context", "real", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip

    async def follows() -> bool:
        watched = {
            item.resource for item in cluster.requests_of(account) if item.verb == "watch" and not item.is_forbidden
        }
        return {"pods", "deployments", "podgroups", "resourceclaims", "resourceslices"} <= watched

    try:
        await wait_until(follows)
        await asyncio.sleep(0.2)
    finally:
        process.terminate()
        await process.wait()
