"""Programs in a lab's containers read what their devices are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from allotment.lab.control_plane import running
from allotment.lab.settings import Settings
from allotment.model.trees import Tree
from tests.lab.driven import run, statuses
from tests.lab.manifests import story
from tests.lab.stage import Stage


def template(name: str, device_class: str, selector: str = "", **more: Any) -> Tree:
    exactly: Tree = {"deviceClassName": device_class}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **more}}},
    }


def pod(name: str, claim: str, *command: str) -> Tree:
    container = {"name": "c", "image": "busybox", "command": list(command), "resources": {"claims": [{"name": "mine"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "resourceClaims": [{"name": "mine", "resourceClaimTemplateName": claim}]},
    }


def test_a_program_reads_the_uuid_of_a_mig_device_that_was_made_for_it(tmp_path: Path) -> None:
    images = tmp_path / "images.toml"
    images.write_text('[[image]]\npattern = "busybox"\ncommands = "run"\n')

    async def tell() -> None:
        fleet = ("a100=1xa100-40gb/dynamic-mig",)
        settings = Settings(fleet=fleet, tls=False, runtime="process", images=images)
        async with running(settings) as plane:
            on = Stage(plane)
            selector = "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'"
            await on.create(template("slice", "mig.nvidia.com", selector))
            await on.create(pod("reader", "slice", "sleep", "60"))
            (running_pod,) = await on.running("default", 1)
            folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/mine/gpu"
            told = json.loads(await run(on, running_pod, "cat", f"{folder}/gpu.nvidia.com-metadata.json"))
            assert told["podClaimName"] == "mine"
            (device,) = told["requests"][0]["devices"]
            (entry,) = await statuses(on, running_pod)
            assert device["name"] == entry["device"]
            # In no slice: the device was not there before the claim.
            assert device["attributes"]["uuid"] == {"string": entry["data"]["uuid"]}
            assert device["attributes"]["profile"] == {"string": "1g.5gb"}

    story(tell)
