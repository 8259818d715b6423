"""The event, ``explain``, ``check`` and ``doctor`` name the same first remedy for pods of a running lab."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from allotment.cli.main import main
from allotment.model.trees import Tree
from tests.cluster_actions import scheduled_condition
from tests.corpus.test_corpus import Scenario
from tests.lab.harness import LabHarness, lab_harness

_STATED = 'remove the nodeselector, and request productname "nvidia a100-sxm4-{}gb" in resourceclaimtemplate gpu'
#: By scenario: the first remedy, and the command that makes the change.
FIRST = {
    "node-cordoned-beside-full-node": ("uncordon node-b", "kubectl uncordon node-b"),
    "replicas-beside-cordoned-node": ("uncordon node-b", "kubectl uncordon node-b"),
    "replicas-beside-tainted-node": ("tolerate the node's taint dedicated", ""),
    "mixed/devices-in-use-beside-tainted-node": ("tolerate the node's taint dedicated", ""),
    "mixed/node-selector-of-misspelled-product-without-labels": (_STATED.format("40"), ""),
    "mixed/node-selector-of-product-without-labels": (_STATED.format("80"), ""),
    "mixed/node-taint-beside-full-tainted-node": ("tolerate the node's taint dedicated", ""),
    "mixed/no-alternative-fits-while-devices-in-use": ("wait for", ""),
    "mixed/selector-matches-nothing-among-similar-models": ('request productname "nvidia a100-sxm4-80gb"', ""),
    "mixed/selector-matches-nothing-except-on-cordoned-node": ("uncordon node-b", "kubectl uncordon node-b"),
    "mixed/too-few-devices-beside-cordoned-node": ("uncordon node-b", "kubectl uncordon node-b"),
}
NAMESPACE = "ml"
#: The objects of a snapshot.
_READ = {
    "v1": ("Namespace", "Node", "Pod"),
    "apps/v1": ("Deployment", "ReplicaSet"),
    "resource.k8s.io/v1": ("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"),
}
#: The kinds that the author of the pods applies.
_OWN = ("Deployment", "Pod", "ResourceClaimTemplate")


def flat(text: str) -> str:
    """The text without its line breaks."""
    return " ".join(text.split())


async def pending(lab: LabHarness) -> Tree:
    """The only pod without a node, once the scheduler has reported on it and all others have one."""

    def reported(pods: list[Tree]) -> bool:
        left = [pod for pod in pods if not pod["spec"].get("nodeName")]
        return len(left) == 1 and "to make it fit" in scheduled_condition(left[0]).get("message", "")

    return next(pod for pod in await lab.pods(NAMESPACE, reported) if not pod["spec"].get("nodeName"))


@pytest.mark.parametrize("name", FIRST)
def test_all_tools_name_the_same_first_remedy(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario, (remedy, command) = Scenario(name), FIRST[name]

    async def shown() -> tuple[str, str, list[Tree]]:
        async with lab_harness(scenario.features) as lab:
            await lab.set_up([document.tree for document in scenario.documents])
            pod = await pending(lab)
            event = await lab.failed_scheduling(pod["metadata"]["name"], NAMESPACE, "to make it fit")
            types = [{"apiVersion": version, "kind": kind} for version, kinds in _READ.items() for kind in kinds]
            objects = [{**tree, **of} for of in types for tree in (await lab.client.list(lab.resource(of))).items]
            return event, pod["metadata"]["name"], objects

    event, pod, objects = asyncio.run(shown())
    cluster, app = tmp_path / "cluster.yaml", tmp_path / "app.yaml"
    cluster.write_text(yaml.safe_dump_all(objects))
    app.write_text(yaml.safe_dump_all(d.tree for d in scenario.documents if d.kind in _OWN))

    def run(*words: str) -> str:
        main([*words, "--cluster", str(cluster), "--kube-version", scenario.features.kube])
        return flat(capsys.readouterr().out)

    answers = {
        "event": re.search(r"to make it fit on node-[ab]: (.*)", flat(event)),
        "explain": re.search(r"to make it fit on node-[ab]: (.*)", run("explain", f"pod/{pod}", "-n", NAMESPACE)),
        "check": re.search(r"P501 .*? (?:to make it fit|fix): (.*)", run("check", str(app), "--isolated")),
        "doctor": re.search(r"D602 .*? -> (.*)", run("doctor")),
    }
    for tool, found in answers.items():
        assert found is not None, tool
        assert found[1].lower().startswith(remedy), (tool, found[1])
        assert command in found[1], (tool, found[1])
