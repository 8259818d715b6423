"""The shared manifests, and labs with the hardware on which they were recorded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from allotment.cluster.resources import SLICES
from allotment.model.features import GATES, Features
from allotment.model.trees import Tree
from tests.lab.harness import LabHarness, lab_harness

Shared = Callable[[str], Path]

ALL_GATES = Features("1.36", {gate: True for gate, releases in GATES.items() if "1.36" in releases})


class Manifests:
    """The shared manifests by file."""

    def __init__(self, shared: Shared) -> None:
        self._root = shared("manifests")

    def __call__(self, *files: str) -> list[Tree]:
        """Copies of the objects in some files, which the caller may change."""
        found = []
        for file in files:
            path = self._root / (file if file.endswith(".yaml") else f"{file}.yaml")
            found += [tree for tree in yaml.safe_load_all(path.read_text()) if tree]
        return found

    def read_one(self, file: str, kind: str = "") -> Tree:
        """The object of a file, or its first object of a kind."""
        return next(tree for tree in self(file) if kind in ("", tree["kind"]))


CLUSTERS: Mapping[str, tuple[str, ...]] = {
    "a100": ("classes/nvidia", "slices/nvidia-dgx-a100-full-gpus"),
    "a100-mig": ("classes/nvidia", "slices/nvidia-a100-1gpu-dynamic-mig"),
    "a100-mixed": ("classes/nvidia", "slices/nvidia-dgx-a100-static-mig-mixed"),
    "h100-mig": ("classes/nvidia", "slices/nvidia-h100-2gpu-dynamic-mig"),
    "mi300x": ("classes/amd", "slices/amd-mi300x-spx-v0"),
    "mi300x-2026": ("classes/amd", "slices/amd-mi300x-spx-v1"),
    "mi300x-cpx": ("classes/amd", "slices/amd-mi300x-cpx-v0"),
}


@asynccontextmanager
async def cluster(manifests: Manifests, name: str, features: Features | None = None) -> AsyncIterator[LabHarness]:
    """A lab with hardware from the shared slices and the vendor's classes."""
    async with lab_harness(features) as lab:
        await lab.set_up(manifests(*CLUSTERS[name]), kubelets=True)
        yield lab


async def create_accepted(lab: LabHarness, trees: Sequence[Tree]) -> None:
    """Create all objects with strict field validation; each must be accepted."""
    for tree in trees:
        code, message = await lab.post(tree)
        assert code in (201, 409), message  # several examples contain their namespace
        assert code == 201 or tree["kind"] == "Namespace", message


async def parents(lab: LabHarness, names: Sequence[str], attribute: str = "parentUUID") -> set[str]:
    """The parent GPUs of partitions."""
    devices = [d for slice_ in (await lab.client.list(SLICES)).items for d in slice_["spec"].get("devices") or ()]
    known = {device["name"]: device.get("attributes") or {} for device in devices}
    return {known[name][attribute]["string"] for name in names}


def run_scenario(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def pod_with(claim: str, name: str = "user", namespace: str = "default", *, template: bool = False) -> Tree:
    """A pod for a manifest that has none."""
    field = "resourceClaimTemplateName" if template else "resourceClaimName"
    container = {"name": "c", "image": "ubuntu:22.04", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", field: claim}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def to_exactly(request: Tree) -> Tree:
    """Convert a flat request of v1beta1 to the form of v1."""
    name, *_ = (request.pop(key) for key in ("name",))
    return {"name": name, "exactly": request}
