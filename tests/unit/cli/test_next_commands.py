"""The last line of each command that refuses something: the one command that helps most."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.corpus.test_corpus import Scenario
from tests.unit.cli.conftest import Allot

BEGINNERS = Path(__file__).parents[2] / "corpus" / "beginners"
CORDONED = "node-cordoned-beside-full-node"
OWN = ("Pod", "Deployment", "ResourceClaimTemplate")
TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: COUNT}}]}}}
"""
#: A pod that names the template as a claim.
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec:
  resourceClaims:
  - name: gpu
    resourceClaimName: gpus
  containers:
  - name: main
    image: pause
    resources:
      claims:
      - name: gpu
"""
FLAT = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.nvidia.com}]}}
"""
FULL = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train, namespace: ml}
spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu.nvidia.com}}]}}
status:
  allocation: {devices: {results: [{request: g, driver: gpu.nvidia.com, pool: a, device: gpu-0}]}}
  reservedFor: [{resource: pods, name: train-0, uid: u0}]
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def split(name: str) -> None:
    """Write a scenario: the author's objects to app.yaml, the others to cluster.yaml."""
    documents = Scenario(name).documents
    Path("app.yaml").write_text(yaml.safe_dump_all(d.tree for d in documents if d.kind in OWN))
    Path("cluster.yaml").write_text(yaml.safe_dump_all(d.tree for d in documents if d.kind not in OWN))


def last(text: str) -> str:
    return text.splitlines()[-1].strip()


def test_tools_name_the_same_command_for_a_cordoned_node(allot: Allot) -> None:
    split(CORDONED)
    cluster = ("--cluster", "cluster.yaml", "--kube-version", "1.36")
    assert last(allot("explain", "-f", "app.yaml", *cluster).out) == "next: kubectl uncordon node-b"
    assert last(allot("check", "app.yaml", *cluster).out) == "next: kubectl uncordon node-b"


def test_tools_name_the_same_fix(allot: Allot) -> None:
    Path("app.yaml").write_text(TEMPLATE.replace("COUNT", "4"))
    step = "next: allot check app.yaml --fleet 2xt4 --fix --unsafe-fixes"
    assert last(allot("explain", "-f", "app.yaml", "--fleet", "2xt4").out) == step
    assert last(allot("check", "app.yaml", "--fleet", "2xt4").out) == step
    assert allot("check", "app.yaml", "--fleet", "2xt4", "--fix", "--unsafe-fixes").code == 0
    assert allot("explain", "-f", "app.yaml", "--fleet", "2xt4").code == 0


def test_the_step_is_part_of_json(allot: Allot) -> None:
    Path("app.yaml").write_text(TEMPLATE.replace("COUNT", "4"))
    step = "allot check app.yaml --fleet 2xt4 --fix --unsafe-fixes"
    (answer,) = json.loads(allot("explain", "-f", "app.yaml", "--fleet", "2xt4", "-o", "json").out)["answers"]
    assert answer["next"] == step
    data = json.loads(allot("check", "app.yaml", "--fleet", "2xt4", "-o", "json").out)
    assert data["next"] == "allot check app.yaml --fleet 2xt4 -o json --fix --unsafe-fixes"


@pytest.mark.parametrize("words", [("explain", "-f"), ("plan", "-f"), ("free", "-f")])
def test_invalid_files_are_fixed_by_check(allot: Allot, words: Sequence[str]) -> None:
    Path("claim.yaml").write_text(FLAT)
    ran = allot(*words, "claim.yaml")
    assert (ran.code, last(ran.err)) == (2, "next: allot check claim.yaml --fix")
    assert allot("check", "claim.yaml", "--fix").code == 0


def test_mistake_in_files_is_fixed_before_hardware_is_known(allot: Allot) -> None:
    template = TEMPLATE.replace("COUNT", "1")
    Path("app.yaml").write_text(f"{template}---\n{POD}")
    step = "next: allot check app.yaml --fix --unsafe-fixes"
    assert step in allot("explain", "-f", "app.yaml").out
    assert allot(*step.split()[2:]).code == 0
    assert "resourceClaimTemplateName: gpus" in Path("app.yaml").read_text()


def test_warnings_with_a_fix_name_the_command_with_fixes(allot: Allot) -> None:
    Path("pod.yaml").write_text((BEGINNERS / "claim-without-container.yaml").read_text())
    ran = allot("check", "pod.yaml")
    assert (ran.code, last(ran.out)) == (0, "next: allot check pod.yaml --fix --unsafe-fixes")
    fixed = allot(*last(ran.out).split()[2:])
    assert fixed.code == 0
    assert "no findings remain" in fixed.out
    assert "next: " not in fixed.out


def test_existing_pod_with_other_fields_is_replaced(allot: Allot) -> None:
    pod = POD.replace("resourceClaimName", "resourceClaimTemplateName")
    template = TEMPLATE.replace("COUNT", "1")
    slices = allot("fleet", "slices", "a=t4", "--all").out
    Path("cluster.yaml").write_text("---\n".join((slices, template, pod.replace("gpus", "old"))))
    Path("app.yaml").write_text("---\n".join((template, pod)))
    ran = allot("check", "app.yaml", "--cluster", "cluster.yaml")
    assert (ran.code, last(ran.out)) == (1, "next: kubectl replace --force -f app.yaml")
    assert "Pod default/trainer already exists with a different resourceClaims" in " ".join(ran.out.split())


def test_a_mistake_without_a_fix_is_explained_by_its_rule(allot: Allot) -> None:
    Path("claim.yaml").write_text(
        FLAT.replace("deviceClassName: gpu.nvidia.com", "exactly: {deviceClassName: a, count: -1}")
    )
    ran = allot("check", "claim.yaml")
    assert ran.code == 1
    assert last(ran.out).startswith("next: allot rule ")
    assert allot(*last(ran.out).split()[2:]).code == 0


def test_what_the_hardware_lacks_is_compared_with_what_it_has(allot: Allot) -> None:
    ran = allot("claim", "--gpus", "1", "--memory", "80GB", "--fleet", "t4")
    assert (ran.code, last(ran.err)) == (1, "next: allot free --fleet t4")


def test_plan_without_a_machine_lists_all_types(allot: Allot) -> None:
    Path("app.yaml").write_text(TEMPLATE.replace("COUNT", "20").replace("ResourceClaimTemplate", "ResourceClaim"))
    text = Path("app.yaml").read_text().replace("{spec: {devices", "{devices").replace("}}}}}\n", "}}}}\n")
    Path("app.yaml").write_text(text.replace("}]}}}", "}]}}"))
    ran = allot("plan", "app.yaml", "--time-limit", "0")
    assert (ran.code, last(ran.out)) == (1, "next: allot plan app.yaml --time-limit 0 --why")


def test_free_shows_how_to_get_a_device_if_none_is_free(allot: Allot) -> None:
    slices = allot("fleet", "slices", "a=t4", "--all").out
    Path("full.yaml").write_text(f"{slices}---\n{FULL}")
    assert last(allot("free", "--cluster", "full.yaml").out) == "next: kubectl describe resourceclaim train -n ml"
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {unschedulable: true}\n"
    Path("cordoned.yaml").write_text(f"{allot('fleet', 'slices', 'a=t4').out}---\n{node}")
    assert last(allot("free", "--cluster", "cordoned.yaml").out) == "next: kubectl uncordon a"
    data = json.loads(allot("free", "--cluster", "cordoned.yaml", "-o", "json").out)
    assert data["next"] == "kubectl uncordon a"
    Path("empty.yaml").write_text(node)
    assert last(allot("free", "--cluster", "empty.yaml").out) == "next: allot doctor --cluster empty.yaml"


def test_nothing_is_suggested_if_nothing_is_refused(allot: Allot) -> None:
    Path("app.yaml").write_text(TEMPLATE.replace("COUNT", "1"))
    for words in (("explain", "-f", "app.yaml", "--fleet", "t4"), ("check", "app.yaml"), ("free", "--fleet", "t4")):
        assert "next: " not in allot(*words).out


def test_standard_input_cannot_be_read_again(allot: Allot) -> None:
    ran = allot("explain", "-f", "-", "--fleet", "2xt4", stdin=TEMPLATE.replace("COUNT", "4"))
    assert ran.code == 1
    assert "next: " not in ran.out
