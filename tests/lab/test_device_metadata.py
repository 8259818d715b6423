"""Programs in a lab's containers read the metadata of their devices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from allotment.lab.control_plane import running
from allotment.lab.settings import Settings
from allotment.model.trees import Tree
from tests.lab.driver_nodes import device_statuses, exec_in_pod
from tests.lab.harness import LabHarness
from tests.lab.manifests import run_scenario


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


def test_a_program_reads_the_uuid_of_a_mig_device_created_for_it(tmp_path: Path) -> None:
    images = tmp_path / "images.toml"
    images.write_text('[[image]]\npattern = "busybox"\ncommands = "run"\n')

    async def scenario() -> None:
        fleet = ("a100=1xa100-40gb/dynamic-mig",)
        settings = Settings(fleet=fleet, tls=False, runtime="process", images=images)
        async with running(settings) as plane:
            lab = LabHarness(plane)
            selector = "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'"
            await lab.create(template("slice", "mig.nvidia.com", selector))
            await lab.create(pod("reader", "slice", "sleep", "60"))
            (running_pod,) = await lab.running("default", 1)
            folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/mine/gpu"
            stream = await exec_in_pod(lab, running_pod, "cat", f"{folder}/gpu.nvidia.com-metadata.json")
            output, _ = json.JSONDecoder().raw_decode(stream)  # the first version
            assert output["podClaimName"] == "mine"
            (device,) = output["requests"][0]["devices"]
            (entry,) = await device_statuses(lab, running_pod)
            assert device["name"] == entry["device"]
            # In no slice, because the device did not exist before the claim.
            assert device["attributes"]["uuid"] == {"string": entry["data"]["uuid"]}
            assert device["attributes"]["profile"] == {"string": "1g.5gb"}

    run_scenario(scenario)
