"""M410, M411 and M416: pods that bypass the scheduler, do not use their devices, or also use a device plugin."""

from __future__ import annotations

import pytest

from allotment.tools.check.fixer import fix
from allotment.tools.check.rules.meaning import claim_unused, device_plugin_too, node_name
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.meaning.manifests import (
    by_claim,
    claim,
    fixed_documents,
    gpu_request,
    levels_and_paths,
    matches_of,
    pod,
    request_with_selector,
    template,
)

NODE, UNUSED, PLUGIN = node_name.RULE, claim_unused.RULE, device_plugin_too.RULE

ALLOCATED = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: default, uid: a}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
status:
  allocation: {devices: {results: [{request: gpu, driver: gpu.nvidia.com, pool: a, device: gpu-0}]}}
"""


def test_node_name_bypasses_the_scheduler() -> None:
    texts = (template(), pod(nodeName="a"))
    assert levels_and_paths(NODE, *texts) == [("error", "Pod spec.nodeName")]
    spec = fixed_documents(NODE, *texts)[1]["spec"]
    assert "nodeName" not in spec
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "a"}


def test_existing_node_selector_is_kept() -> None:
    spec = fixed_documents(NODE, template(), pod(nodeName="a", nodeSelector={"zone": "b"}))[1]["spec"]
    assert spec["nodeSelector"] == {"zone": "b", "kubernetes.io/hostname": "a"}


def test_allocated_claim_can_be_used_with_node_name() -> None:
    direct = pod(nodeName="a", resourceClaims=by_claim())
    assert levels_and_paths(NODE, direct, cluster=ALLOCATED) == []
    assert levels_and_paths(NODE, direct, claim()) == [("error", "Pod spec.nodeName")]
    # It may be allocated for the other pod.
    assert levels_and_paths(NODE, direct, claim(), pod(name="b", resourceClaims=by_claim())) == [
        ("warning", "Pod spec.nodeName")
    ]


def test_pods_without_claims_may_have_node_name() -> None:
    assert levels_and_paths(NODE, pod((), nodeName="a", resourceClaims=[])) == []


# --- unused ----------------------------------------------------------------------------------------------------------


def test_unused_claim() -> None:
    assert levels_and_paths(UNUSED, template(), pod(())) == [("warning", "Pod spec.resourceClaims[0].name")]
    container = fixed_documents(UNUSED, template(), pod(()))[1]["spec"]["containers"][0]
    assert container["resources"]["claims"] == [{"name": "gpu"}]


def test_fix_adds_missing_resources() -> None:
    bare = fixed_documents(UNUSED, template(), pod(containers=[{"name": "app"}]))[1]["spec"]["containers"][0]
    assert bare == {"name": "app", "resources": {"claims": [{"name": "gpu"}]}}
    entries = [{"name": name, "resourceClaimTemplateName": "gpu"} for name in ("one", "two")]
    second = fixed_documents(UNUSED, template(), pod([{"name": "one"}], resourceClaims=entries))[1]["spec"][
        "containers"
    ][0]
    assert second["resources"]["claims"] == [{"name": "one"}, {"name": "two"}]


def test_no_fix_with_several_containers() -> None:
    (match,) = matches_of(UNUSED, template(), pod(containers=[{"name": "a"}, {"name": "b"}]))
    assert match.fix is None


def test_init_and_ephemeral_containers_count() -> None:
    init = [{"name": "init", "resources": {"claims": [{"name": "gpu"}]}}]
    assert levels_and_paths(UNUSED, template(), pod((), initContainers=init)) == []
    assert levels_and_paths(UNUSED, template(), pod((), ephemeralContainers=init)) == []


def test_unknown_claim_name_is_left_to_the_api_server() -> None:
    assert levels_and_paths(UNUSED, template(), pod([{"name": "gpus"}])) == []


def test_network_devices_are_not_reported() -> None:
    assert levels_and_paths(UNUSED, template(gpu_request(deviceClassName="dra.net")), pod(())) == []
    nic = request_with_selector('device.attributes["dra.net"].ifName == "gpu0rdma0"')
    nic["exactly"]["deviceClassName"] = "nics"
    assert levels_and_paths(UNUSED, template(nic), pod(())) == []
    entries = [{"name": "nic", "resourceClaimName": "elsewhere"}]
    assert levels_and_paths(UNUSED, pod((), resourceClaims=entries)) == []
    assert levels_and_paths(UNUSED, pod(())) == [("warning", "Pod spec.resourceClaims[0].name")]


# --- device plugins --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "class_name", "both"),
    [
        ("nvidia.com/gpu", "gpu.nvidia.com", True),
        ("nvidia.com/mig-1g.5gb", "gpu.nvidia.com", True),
        ("nvidia.com/gpu", "gpu.amd.com", False),
        ("amd.com/gpu", "gpu.amd.com", True),
        ("nvidia.com/gpu", "compute-domain-default-channel.nvidia.com", False),
        ("nvidia.com/gpu", "some-class", False),
        ("memory", "gpu.nvidia.com", False),
    ],
)
def test_claims_and_device_plugin_limits(limit: str, class_name: str, both: bool) -> None:
    texts = (template(gpu_request(deviceClassName=class_name)), pod(limits={limit: 1}))
    where = f"Pod spec.containers[0].resources.limits.{limit}"
    assert levels_and_paths(PLUGIN, *texts) == ([("warning", where)] if both else [])


def test_zero_limit_is_not_reported() -> None:
    assert levels_and_paths(PLUGIN, template(), pod(limits={"nvidia.com/gpu": 0})) == []


def test_fix_keeps_the_comment_on_node_name() -> None:
    text = node_name.RULE.bad.replace("nodeName: gpu-1", "nodeName: gpu-1   # pinned")
    fixed = fix(bundle_of(text), unsafe=True, rules=[NODE])
    assert "    kubernetes.io/hostname: gpu-1   # pinned\n" in fixed.texts["file.yaml"]


def test_invalid_resource_claims_are_not_reported_as_unused() -> None:
    text = claim_unused.RULE.bad + "      claims: [gpu]\n"  # the item is not an object: S108
    assert levels_and_paths(UNUSED, text) == []


def test_network_interface_of_an_accelerator_is_not_reported() -> None:
    entry = [{"name": "tpu-net-interface", "resourceClaimTemplateName": "tpu-net-interfaces"}]
    assert levels_and_paths(UNUSED, pod(uses=(), resourceClaims=entry)) == []
