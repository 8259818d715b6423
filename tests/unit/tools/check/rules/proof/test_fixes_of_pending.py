"""The fixes of P501: the tested changes of ``explain``, in the text of the files."""

from __future__ import annotations

from textwrap import dedent

import pytest

from allotment.tools.check.fixer import fix
from allotment.tools.check.rule import Fix
from allotment.tools.check.rules.proof import pending
from allotment.tools.check.run import check
from tests.unit.tools.check.bundles import bundle_of

A100 = "dgx-a100-40gb"
TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: gpu
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: app
spec:
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: gpu
  containers:
  - name: main
    image: registry.example/app:1
    resources:
      claims:
      - name: gpu
"""
ENTRY = "  resourceClaims:\n  - name: gpu\n    resourceClaimTemplateName: gpu\n"


def with_expression(expression: str) -> str:
    """The template with a selector, whose expression is a block of text."""
    block = "".join(f"                {line}\n" for line in dedent(expression).strip().splitlines())
    return f"{TEMPLATE}          selectors:\n          - cel:\n              expression: |\n{block}"


def pending_fix(text: str, *, fleet: str = "", cluster: str = "") -> Fix | None:
    """The fix of the only finding of P501."""
    (match,) = pending.RULE.find(bundle_of(text, fleet=fleet, cluster=cluster))
    return match.fix


def fixed_text(text: str, *, unsafe: bool = True, fleet: str = "", cluster: str = "") -> str:
    return fix(bundle_of(text, fleet=fleet, cluster=cluster), unsafe=unsafe).texts.get("file.yaml", text)


def test_only_the_changed_words_of_an_expression_are_replaced() -> None:
    """The comment, the line breaks and the other condition stay as they are."""
    text = with_expression("""
        // the whole card
        device.attributes["gpu.nvidia.com"].type == "gpu"
          && device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("60Gi")) >= 0
    """)
    assert fixed_text(f"{text}---\n{POD}", fleet=A100) == f"{text}---\n{POD}".replace("60Gi", "40Gi")


def test_the_quotes_of_the_author_are_used() -> None:
    text = with_expression("device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'")
    assert "== 'NVIDIA A100-SXM4-40GB'\n" in fixed_text(f"{text}---\n{POD}", fleet=A100)


def test_an_older_version_is_changed_in_its_own_shape() -> None:
    flat = (
        TEMPLATE.replace("/v1\n", "/v1beta1\n")
        .replace("        exactly:\n  ", "")
        .replace("          device", "        device")
    )
    found = pending_fix(f"{flat}        count: 9\n---\n{POD}", fleet=A100)
    assert found is not None
    ((_, edit),) = found.edits
    assert edit.path == ("spec", "spec", "devices", "requests", 0, "count")


def test_a_toleration_is_added_to_the_pod_template_of_a_workload() -> None:
    job = """\
apiVersion: batch/v1
kind: CronJob
metadata:
  name: nightly
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          resourceClaims:
          - name: gpu
            resourceClaimTemplateName: gpu
          containers:
          - name: main
            image: registry.example/app:1
            resources:
              claims:
              - name: gpu
"""
    taint = f'{NODE}spec: {{taints: [{{key: team, value: "no", effect: NoSchedule}}]}}\n'
    text = f"{TEMPLATE}---\n{job}"
    found = pending_fix(text, cluster=taint + SLICES)
    assert found is not None
    assert (found.text, found.safe) == ("tolerate the node's taint team", False)
    changed = fixed_text(text, cluster=taint + SLICES)
    assert 'value: "no"' in changed
    assert check(bundle_of(changed, cluster=taint + SLICES), [pending.RULE]) == ()


SLICES = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: one}
spec:
  driver: gpu.nvidia.com
  nodeName: dgx-a100-40gb
  pool: {name: dgx-a100-40gb, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {type: {string: gpu}, productName: {string: NVIDIA L4}}
    capacity: {memory: {value: 23034Mi}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: device.driver == "gpu.nvidia.com"}}]}
"""
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: dgx-a100-40gb}\n"


@pytest.mark.parametrize(
    ("written", "becomes", "safe"),
    [
        # a misspelled name and a unit that Kubernetes does not have
        ('attributes["gpu.nvidia.com"].productname == "NVIDIA L4"', 'productName == "NVIDIA L4"', True),
        ('capacity["gpu.nvidia.com"].memory.compareTo(quantity("20GB")) >= 0', 'quantity("20G")', True),
        # cards sold as 24 GB, which are probably meant
        ('capacity["gpu.nvidia.com"].memory.compareTo(quantity("24Gi")) >= 0', 'quantity("24G")', False),
        # less than stated
        ('capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0', 'quantity("23034Mi")', False),
    ],
)
def test_a_fix_is_safe_only_if_no_other_meaning_is_possible(written: str, becomes: str, safe: bool) -> None:
    text = with_expression(f"device.{written}") + f"---\n{POD}"
    assert becomes in fixed_text(text, cluster=NODE + SLICES)
    assert (becomes in fixed_text(text, unsafe=False, cluster=NODE + SLICES)) is safe


@pytest.mark.parametrize(("written", "safe"), [("nvidia-a100-sxm4-40gb", True), ("A100-40GB", True), ("A100", False)])
def test_a_product_is_a_guess_if_the_name_does_not_state_its_memory(written: str, safe: bool) -> None:
    text = with_expression(f'device.attributes["gpu.nvidia.com"].productName == "{written}"') + f"---\n{POD}"
    assert '"NVIDIA A100-SXM4-40GB"' in fixed_text(text, fleet=A100)
    assert ('"NVIDIA A100-SXM4-40GB"' in fixed_text(text, unsafe=False, fleet=A100)) is safe


def test_a_similar_name_of_another_driver_is_a_guess() -> None:
    """``gpu.example.com`` is not a misspelled ``gpu.nvidia.com``."""
    text = f"{TEMPLATE}---\n{POD}".replace("gpu.nvidia.com", "gpu.example.com")
    found = [f for f in check(bundle_of(text, cluster=NODE + SLICES)) if f.code == "V306"]
    assert [f.fix and f.fix.safe for f in found] == [False]
    typo = f"{TEMPLATE}---\n{POD}".replace("gpu.nvidia.com", "gpu.nvida.com")
    assert "deviceClassName: gpu.nvidia.com" in fixed_text(typo, unsafe=False, cluster=NODE + SLICES)


def test_a_change_of_the_cluster_is_help_with_its_command() -> None:
    cordoned = NODE + "spec: {unschedulable: true}\n" + SLICES
    (match,) = pending.RULE.find(bundle_of(f"{TEMPLATE}---\n{POD}", cluster=cordoned))
    assert match.fix is None
    assert match.help == "to make it fit: uncordon dgx-a100-40gb (kubectl uncordon dgx-a100-40gb)"


def test_a_tested_change_replaces_the_guess_of_another_rule() -> None:
    """M402 would require at least 64Gi, which no device of the cluster has."""
    text = with_expression('device.capacity["gpu.nvidia.com"].memory == quantity("64Gi")') + f"---\n{POD}"
    found = {finding.code: finding.fix for finding in check(bundle_of(text, fleet=A100))}
    assert found["M402"] == found["P501"]
    (guess,) = (finding for finding in check(bundle_of(text)) if finding.code == "M402")
    assert guess.fix is not None
    assert guess.fix.text == "require at least 64Gi"


def test_a_reference_is_corrected_with_what_is_wrong_in_the_claim() -> None:
    """M405 guesses the name; the simulation also finds that the claim requests more than a node has."""
    text = f"{TEMPLATE}          count: 9\n---\n{POD}".replace("TemplateName: gpu", "TemplateName: gppu")
    fixed = fixed_text(text, fleet=A100)
    assert fixed == text.replace("TemplateName: gppu", "TemplateName: gpu").replace("count: 9", "count: 8")


def test_other_amounts_of_a_container_stay_as_written() -> None:
    amounts = "cpu: 4\n        nvidia.com/gpu: 9\n        memory: 2048Mi  # of the host"
    text = POD.replace("claims:\n      - name: gpu", f"limits:\n        {amounts}").replace(ENTRY, "")
    assert fixed_text(text, fleet=A100) == text.replace("gpu: 9", "gpu: 8")


def test_a_misspelled_resource_is_corrected_with_what_else_is_wrong() -> None:
    """V314 alone would keep the number of devices, which no node has."""
    text = POD.replace("claims:\n      - name: gpu", "limits:\n        nvdia.com/gpu: 9").replace(ENTRY, "")
    (found,) = check(bundle_of(text, fleet=A100))
    assert found.code == "V314"
    assert found.fix is not None
    assert found.fix.text == "use nvidia.com/gpu, and request 8 devices instead of 9"
    assert fixed_text(text, fleet=A100) == text.replace("nvdia.com/gpu: 9", "nvidia.com/gpu: 8")


def test_a_text_that_must_be_removed_is_not_corrected_first() -> None:
    """With the accessor removed, each of two conditions could be dropped; as written, only one can."""
    accessor = """device.attributes['gpu.nvidia.com'].productName.string == 'NVIDIA H100 80GB HBM3'"""
    product = """device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100-SXM4-40GB'"""
    text = with_expression(f"{accessor} && {product}") + f"---\n{POD}"
    (found,) = (finding for finding in check(bundle_of(text, fleet=A100)) if finding.level == "error")
    assert found.code == "C204"
    assert found.fix is not None
    assert not found.fix.safe
    assert fixed_text(text, fleet=A100) == text.replace(f"{accessor} && ", "")


def test_an_error_at_evaluation_is_corrected_with_what_else_is_wrong() -> None:
    """The API server accepts the expression, so that the pod is simulated; the accessor is certainly wrong."""
    text = with_expression("device.attributes['gpu.nvidia.com'].architecture.string == 'Ampere'") + f"---\n{POD}"
    (found,) = check(bundle_of(text, fleet=A100))
    assert found.fix is not None
    assert (found.code, found.fix.text, found.fix.safe) == ("C204", "remove .string", True)


def test_the_changes_of_the_files_are_fixed_although_another_pod_must_end_first() -> None:
    """A pod of the files has all eight GPUs; the next one requests more than a claim can have."""
    eight = f"{TEMPLATE}          count: 8\n---\n{POD}".replace("name: gpu\nspec:", "name: eight\nspec:")
    eight = eight.replace("name: app", "name: first").replace("TemplateName: gpu", "TemplateName: eight")
    text = f"{eight}---\n{TEMPLATE}          count: 33\n---\n{POD}"
    (fix_,) = (found.fix for found in check(bundle_of(text, fleet=A100)) if found.level == "error")
    assert fix_ is not None
    assert fix_.text.endswith("instead of 33, and wait for pod first to finish (claim default/first-gpu-0)")
    assert "count: 33" not in fixed_text(text, fleet=A100)


def test_a_node_of_the_files_is_uncordoned() -> None:
    cordoned = NODE + "spec: {unschedulable: true}\n"
    text = f"{TEMPLATE}---\n{POD}---\n{cordoned}"
    assert "unschedulable" not in fixed_text(text, cluster=NODE + SLICES)


def test_what_the_pod_requires_of_devices_is_not_dropped() -> None:
    """The pod has no claim that could require the memory instead."""
    affinity = """\
apiVersion: v1
kind: Pod
metadata:
  name: app
spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - {key: nvidia.com/gpu.memory, operator: Gt, values: ["39000"]}
  containers:
  - name: main
    image: registry.example/app:1
    resources:
      limits:
        nvidia.com/gpu: 1
"""
    assert pending_fix(affinity, fleet=A100) is None
