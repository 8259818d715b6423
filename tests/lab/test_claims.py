"""The manifests that ``allot claim`` writes for requests in plain words run, all of them in one lab."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from allotment.cli.main import main
from allotment.model.trees import Tree
from tests.claim_requests import ClaimRequest, claim_requests
from tests.lab.harness import lab_harness


def machines(request: ClaimRequest, namespace: str) -> dict[str, str]:
    """The machines of a request by node, as fleet descriptions: those of its own namespace."""
    return {f"{namespace}-{number}": entry for number, entry in enumerate(request.fleet.split(","))}


def written(request: ClaimRequest, namespace: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[Tree]:
    """The objects that ``allot claim`` writes, in a namespace; classes have none. The workload comes last."""
    app = folder / f"{namespace}.yaml"
    nodes = machines(request, namespace)
    app.write_text(request.manifest(tuple(nodes)))
    fleet = ",".join(f"{node}={entry}" for node, entry in nodes.items())
    hardware = ["--fleet", fleet] if request.needs_hardware else []
    assert main(["claim", *request.arguments, "--for", "app", "-f", str(app), "--quiet", *hardware]) == 0
    trees = [tree for tree in yaml.safe_load_all(capsys.readouterr().out) if tree]
    for tree in trees:
        if tree["kind"] != "DeviceClass":
            tree["metadata"]["namespace"] = namespace
    return sorted(trees, key=lambda tree: tree["metadata"]["name"] == "app")


def test_claims_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = {f"r{number}": request for number, request in enumerate(claim_requests())}
    fleet = [f"{node}={entry}" for name, r in requests.items() for node, entry in machines(r, name).items()]
    trees = {name: written(request, name, tmp_path, capsys) for name, request in requests.items()}

    async def run() -> None:
        async with lab_harness(fleet=fleet) as lab:
            for objects in trees.values():
                for tree in objects:
                    code, message = await lab.post(tree)
                    assert code == 201, f"{tree['kind']} {tree['metadata']}: {message}"
            for name, request in requests.items():
                await lab.running(name, request.replicas)
                pods = await lab.pods(name, bool)
                assert all([await lab.devices(pod) for pod in pods]), request.phrase

    asyncio.run(run())
