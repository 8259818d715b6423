"""The articles' manifests have the same results as on a real cluster.

The results are in the table of ``manifests/README.md`` in the same folder: they were recorded with the real scheduler
and controllers and the same slices. Where the lab does more (kubelets), pods run.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DEPLOYMENTS, JOBS
from allotment.model.trees import Tree
from tests.cluster_actions import is_running, is_unschedulable, scheduled_condition
from tests.lab.driver_nodes import logs
from tests.lab.harness import lab_harness
from tests.lab.manifests import Manifests, Shared, cluster, create_accepted, parents, pod_with, run_scenario, to_exactly


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


# --- seed 1: one A100, shared and as MIG devices
# -----------------------------------------------------------------------


def test_the_deployment_gets_an_ampere_and_never_a_t4(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("t4=t4-4x-pcie", "a100=dgx-a100-40gb")) as lab:
            await create_accepted(lab, manifests("seed001-rct-ampere-20gi", "seed001-deployment-single"))
            (pod,) = await lab.running("gpu-demo", 1)
            assert pod["spec"]["nodeName"] == "a100"
            assert await lab.devices(pod) == ["gpu-0"]
            (claim,) = await lab.claims(pod)
            assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]

    run_scenario(scenario)


def test_three_pods_share_one_gpu_through_their_claim(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100") as lab:
            await create_accepted(lab, manifests("seed001-claim-timeslicing", "seed001-deployment-timeslicing"))
            pods = await lab.running("gpu-demo", 3)
            assert len({pod["spec"]["nodeName"] for pod in pods}) == 1
            assert [await lab.devices(pod) for pod in pods] == [["gpu-0"]] * 3
            (claim,) = await lab.claims(pods[0])
            assert len(claim["status"]["reservedFor"]) == 3
            (config,) = claim["status"]["allocation"]["devices"]["config"]
            assert config["opaque"]["parameters"]["sharing"]["strategy"] == "TimeSlicing"

    run_scenario(scenario)


def test_a_container_that_names_a_missing_request_gets_no_device(manifests: Manifests) -> None:
    """The claim for MPS with the Deployment for time slicing: scheduled, and without any message without a GPU."""

    async def scenario() -> None:
        async with cluster(manifests, "a100") as lab:
            deployment = manifests.read_one("seed001-deployment-timeslicing", "Deployment")
            container = deployment["spec"]["template"]["spec"]["containers"][0]
            container |= {"image": "ubuntu:22.04", "command": ["bash", "-c"], "args": ["nvidia-smi -L; sleep 99"]}
            await create_accepted(lab, [*manifests("seed001-claim-mps"), deployment])
            pods = await lab.running("gpu-demo", 3)
            assert [await lab.devices(pod) for pod in pods] == [["gpu-0"]] * 3
            assert "GPU 0" not in await logs(lab, pods[0], container["name"])

    run_scenario(scenario)


def test_seven_mig_devices_and_an_eighth_pod_that_waits(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100-mig") as lab:
            await create_accepted(lab, manifests("seed001-deployment-mig", "seed001-rct-mig"))
            pods = await lab.pods("gpu-demo", lambda pods: len(pods) == 7)
            first = await lab.failed_scheduling(pods[0]["metadata"]["name"], "gpu-demo", "(template-missing)")
            assert first.startswith('ResourceClaimTemplate "gpu-demo-mig" does not exist in namespace gpu-demo')
            assert "gpu-demo-1" not in first  # the event is the tenant's, who may not see other namespaces
            assert not any(map(scheduled_condition, pods))  # as in Kubernetes: gated without an event
            assert not (await lab.client.list(CLAIMS)).items

            template = manifests.read_one("seed001-rct-mig")
            template["metadata"]["namespace"] = "gpu-demo"
            await create_accepted(lab, [template])
            pods = await lab.running("gpu-demo", 7)
            given = [name for pod in pods for name in await lab.devices(pod)]
            assert len(set(given)) == 7
            assert all("1g5gb" in name for name in given)

            await lab.client.patch(DEPLOYMENTS, "gpu-demo-mig", {"spec": {"replicas": 8}}, "gpu-demo")
            pods = await lab.pods("gpu-demo", lambda pods: len(pods) == 8 and any(map(is_unschedulable, pods)))
            (remaining,) = [pod for pod in pods if not is_running(pod)]
            assert "1 cannot allocate all claims" in scheduled_condition(remaining)["message"]

    run_scenario(scenario)


# --- seed 2: classes, sharing, pairs of MIG devices
# --------------------------------------------------------------------


def test_the_class_that_compares_quantities_with_operators_is_rejected(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness() as lab:
            code, message = await lab.post(manifests.read_one("seed002-deviceclass-high-memory"))
            assert code == 422
            assert "found no matching overload for '_>=_' applied to '(kubernetes.Quantity, kubernetes.Quan" in message

    run_scenario(scenario)


def test_the_training_job_step_by_step(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100-80gb=4xa100-80gb",)) as lab:
            template, job = manifests("seed002-training-job")
            code, message = await lab.post(template)
            assert (code, 'unknown field "spec.spec.devices.requests[0].deviceClassName"' in message) == (400, True)
            code, message = await lab.post(template, strict=False)
            assert (code, "exactly one of `exactly` or `firstAvailable` is required" in message) == (422, True)
            older = {**copy.deepcopy(template), "apiVersion": "resource.k8s.io/v1beta1"}
            older["metadata"]["namespace"] = "older"
            await create_accepted(lab, [older, job])

            (pod,) = await lab.pods("default", lambda pods: len(pods) == 1)
            name = pod["metadata"]["name"]
            await lab.failed_scheduling(name, "default", "(template-missing)")
            await lab.client.delete(CLAIM_TEMPLATES, "training-gpu", "older")

            devices = template["spec"]["spec"]["devices"]
            devices["requests"] = [to_exactly(request) for request in devices["requests"]]
            await create_accepted(lab, [template])
            event = await lab.failed_scheduling(name, "default", "device class high-memory-gpu does not exist")
            assert event.startswith('DeviceClass "high-memory-gpu" does not exist')

            class_ = manifests.read_one("seed002-deviceclass-high-memory")
            cel = class_["spec"]["selectors"][0]["cel"]
            cel["expression"] = cel["expression"].replace(
                '.memory >= quantity("40Gi")', '.memory.compareTo(quantity("40Gi")) >= 0'
            )
            await create_accepted(lab, [class_])
            (pod,) = await lab.running("default", 1)
            assert await lab.devices(pod) == ["gpu-0"]
            job = await lab.client.get(JOBS, "finetune-qwen", "default")
            assert job["status"].get("active") == 1 or job["status"].get("succeeded") == 1

    run_scenario(scenario)


def test_two_models_wait_for_their_claim_and_its_class_and_share_a_gpu(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100") as lab:
            claim, *pods = manifests("seed002-shared-inference")
            code, message = await lab.post(claim)
            assert (code, "unknown field" in message) == (400, True)
            await create_accepted(lab, pods)
            for pod in pods:
                event = await lab.failed_scheduling(pod["metadata"]["name"], "default", "(claim-missing)")
                assert 'ResourceClaim "shared-inference-gpu" does not exist in namespace default' in event

            devices = claim["spec"]["devices"]
            devices["requests"] = [to_exactly(request) for request in devices["requests"]]
            await create_accepted(lab, [claim])
            for pod in pods:
                await lab.failed_scheduling(
                    pod["metadata"]["name"], "default", "device class any-nvidia-gpu does not exist"
                )

            class_ = manifests.read_one("classes/nvidia")
            class_["metadata"]["name"] = "any-nvidia-gpu"
            del class_["spec"]["extendedResourceName"]
            await create_accepted(lab, [class_])
            shared = await lab.running("default", 2)
            assert [await lab.devices(pod) for pod in shared] == [["gpu-0"]] * 2

    run_scenario(scenario)


def _mig_mixed(manifests: Manifests) -> tuple[Tree, Tree]:
    template, deployment = manifests("seed002-mig-mixed")
    devices = template["spec"]["spec"]["devices"]
    devices["requests"] = [to_exactly(request) for request in devices["requests"]]
    return template, deployment


def test_pairs_of_mig_devices_of_one_gpu(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "h100-mig") as lab:
            code, message = await lab.post(manifests.read_one("seed002-mig-mixed"))
            assert (code, "unknown field" in message) == (400, True)
            await create_accepted(lab, _mig_mixed(manifests))
            pods = await lab.running("default", 2)
            used = []
            for pod in pods:
                large, small = await lab.devices(pod)
                assert ("3g40gb" in large, "1g10gb" in small) == (True, True)
                (parent,) = await parents(lab, [large, small])
                used.append(parent)
            assert len(set(used)) == 2

            await lab.client.patch(DEPLOYMENTS, "mig-inference", {"spec": {"replicas": 3}}, "default")
            pods = await lab.pods("default", lambda pods: len(pods) == 3 and any(map(is_unschedulable, pods)))
            assert sum(map(is_running, pods)) == 2

    run_scenario(scenario)


def test_an_a100_of_40gb_has_no_such_profiles(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100-mig") as lab:
            await create_accepted(lab, _mig_mixed(manifests))
            pods = await lab.pods("default", lambda pods: len(pods) == 2 and all(map(is_unschedulable, pods)))
            first = scheduled_condition(pods[0])["message"].splitlines()[0]
            assert first.startswith('no device has profile "3g.40gb"; the devices have')
            assert first.endswith("(selector-matches-nothing)")

    run_scenario(scenario)


# --- seed 3: an early version of DRA
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["seed003-shared-claim-v1alpha3", "seed003-training-template-v1alpha3"])
def test_no_manifest_of_the_third_article_is_accepted(manifests: Manifests, file: str) -> None:
    async def scenario() -> None:
        async with lab_harness() as lab:
            tree, user = manifests(file)
            code, message = await lab.post(tree)
            assert (code, message) == (404, "the server could not find the requested resource")
            code, message = await lab.post(user)
            assert code == 400
            assert 'unknown field "' in message
            assert 'resourceClaims[0].source"' in message

    run_scenario(scenario)


# --- seed 4: all GPUs, partitions, classes ---------------------------------------------------------------------------


def test_all_gpus_in_one_claim_or_none_if_one_is_in_use(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100") as lab:
            await create_accepted(lab, manifests("seed004-deviceclass-nvidia", "seed004-claim-all-gpus"))
            await create_accepted(lab, [pod_with("shared-gpu-claim", "a"), pod_with("shared-gpu-claim", "b")])
            pods = await lab.running("default", 2)
            assert [await lab.devices(pod) for pod in pods] == [[f"gpu-{n}" for n in range(8)]] * 2

            other = manifests.read_one("seed004-claim-all-gpus")
            other["metadata"]["name"] = "other"
            await create_accepted(lab, [other, pod_with("other", "late")])
            message = await lab.failed_scheduling("late", "default", "(devices-in-use)")
            assert "claim default/shared-gpu-claim" in message

    run_scenario(scenario)


def test_an_exact_comparison_is_not_a_minimum(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a100=dgx-a100-40gb", "a100-80gb=4xa100-80gb")) as lab:
            await create_accepted(lab, manifests("seed004-deviceclass-nvidia", "seed004-rct-64gi"))
            await create_accepted(lab, [pod_with("per-pod-gpu", template=True)])
            message = await lab.failed_scheduling("user", "default", "(selector-matches-nothing)")
            assert message.startswith("no device has memory 64Gi; the devices have ")
            assert "  to make it fit on a100-80gb: request memory of at least 64Gi" in message

    run_scenario(scenario)


def test_a_device_class_that_no_driver_installs(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100-mig") as lab:
            await create_accepted(lab, manifests("seed004-rct-mig-1g", "seed004-job-tf-mnist"))
            (pod,) = await lab.pods("default", lambda pods: len(pods) == 1)
            message = await lab.failed_scheduling(
                pod["metadata"]["name"], "default", "device class nvidia-mig does not exist"
            )
            assert message.startswith('DeviceClass "nvidia-mig" does not exist. Did you mean "mig.nvidia.com"?')
            class_ = next(t for t in manifests("classes/nvidia") if t["metadata"]["name"] == "mig.nvidia.com")
            class_["metadata"]["name"] = "nvidia-mig"
            await create_accepted(lab, [class_])
            (pod,) = await lab.running("default", 1)
            (device,) = await lab.devices(pod)
            assert "-mig-" in device

    run_scenario(scenario)


@pytest.mark.parametrize("file", ["seed004-resourceslice-mi300x", "seed004-resourceslice-partition"])
def test_slices_without_a_pool_are_rejected(manifests: Manifests, file: str) -> None:
    async def scenario() -> None:
        async with lab_harness() as lab:
            slice_ = manifests.read_one(file)
            code, message = await lab.post(slice_)
            assert code == 422
            assert "spec.pool.name: Required value" in message
            assert "must be greater than zero" in message
            slice_["spec"]["pool"] = {"name": "gpu-worker-2", "generation": 1, "resourceSliceCount": 1}
            await create_accepted(lab, [slice_])

    run_scenario(scenario)


def test_both_containers_of_a_pod_see_one_gpu(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100") as lab:
            await create_accepted(lab, manifests("seed004-pod-gpu-test2"))
            await lab.failed_scheduling("pod", "gpu-test2", "(template-missing)")
            assert not (await lab.client.list(CLAIMS)).items
            template = manifests.read_one("nvidia/quickstart/v1/gpu-test1", "ResourceClaimTemplate")
            template["metadata"]["namespace"] = "gpu-test2"
            await create_accepted(lab, [template])
            (pod,) = await lab.running("gpu-test2", 1)
            first, second = [await logs(lab, pod, name) for name in ("ctr0", "ctr1")]
            assert first == second
            assert "UUID: GPU-" in first

    run_scenario(scenario)


def test_two_partitions_of_one_gpu_by_the_attribute_that_is_published(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "mi300x-cpx") as lab:
            claim = manifests.read_one("seed004-claim-two-partitions")
            await create_accepted(lab, [claim, pod_with("two-partitions-same-parent", namespace="gpu-test")])
            message = await lab.failed_scheduling("user", "gpu-test", "(constraint-attribute-unpublished)")
            assert 'Did you mean "gpu.amd.com/parentDeviceID"?' in message
            assert "1 cannot allocate all claims" in message

            fixed = copy.deepcopy(claim)
            fixed["metadata"]["name"] = "fixed"
            fixed["spec"]["devices"]["constraints"][0]["matchAttribute"] = "gpu.amd.com/parentDeviceID"
            await create_accepted(lab, [fixed, pod_with("fixed", "second", "gpu-test")])
            pod = await lab.wait_for_pod(is_running, "second", "gpu-test")
            assert len(await parents(lab, await lab.devices(pod), "parentDeviceID")) == 1

    run_scenario(scenario)


def test_the_device_id_of_2026_matches_any_two_partitions(manifests: Manifests) -> None:
    """It identifies the model and no longer the card."""

    async def scenario() -> None:
        async with lab_harness(fleet=("mi300x=mi300x-8x-oam/cpx",)) as lab:
            await create_accepted(lab, manifests("seed004-claim-two-partitions"))
            await create_accepted(lab, [pod_with("two-partitions-same-parent", namespace="gpu-test")])
            (pod,) = await lab.running("gpu-test", 1)
            assert len(await lab.devices(pod)) == 2

    run_scenario(scenario)


# --- seed 5: accessors that the CEL environment of devices lacks
# -------------------------------------------------------


def test_a_class_for_an_unknown_driver_selects_nothing_without_an_error(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100") as lab:
            older = manifests.read_one("seed005-deviceclass-h100-v1beta1")
            newer = {**copy.deepcopy(older), "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "relabelled"}}
            await create_accepted(lab, [older, newer])
            claim = manifests.read_one("seed005-claim-training-v1beta1")
            code, message = await lab.post(claim)
            assert code == 422
            assert "found no matching overload for '_>=_'" in message
            await create_accepted(lab, manifests("seed005-pod-distributed-training"))
            await lab.failed_scheduling(
                "distributed-training", "default", '"training-gpus" does not exist in namespace default'
            )

            del claim["spec"]["devices"]["requests"][0]["selectors"]
            await create_accepted(lab, [claim])
            event = await lab.failed_scheduling("distributed-training", "default", "(unknown-driver)")
            assert event.startswith('driver "nvidia.com" publishes no ResourceSlices. Did you mean "gpu.nvidia.com"?')
            assert scheduled_condition(await lab.pod("distributed-training", "default"))["reason"] == "Unschedulable"

    run_scenario(scenario)


def test_a_selector_that_fails_is_reported_as_an_error(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with cluster(manifests, "a100-mig") as lab:
            claim = manifests.read_one("seed005-claim-mig-v1beta1")
            code, _ = await lab.post({**claim, "apiVersion": "resource.k8s.io/v1"})
            assert code == 400
            await create_accepted(lab, [claim, pod_with("small-inference-gpu")])
            await lab.failed_scheduling("user", "default", "device class nvidia-gpu-mig does not exist")
            class_ = next(t for t in manifests("classes/nvidia") if t["metadata"]["name"] == "mig.nvidia.com")
            class_["metadata"]["name"] = "nvidia-gpu-mig"
            await create_accepted(lab, [class_])
            message = await lab.failed_scheduling("user", "default", "CEL runtime error: no such key: string")
            assert message.startswith('no device publishes anything in the domain "migProfile".')
            assert scheduled_condition(await lab.pod("user", "default"))["reason"] == "SchedulerError"

    run_scenario(scenario)


# --- completeness
# ------------------------------------------------------------------------------------------------------

#: Not objects: parts of a pod or a selector, and values for charts.
NO_OBJECTS = {
    "seed001-resourceslice-fragment", "seed002-device-plugin-fragment", "seed004-helm-dra-values",
    "seed004-helm-operator-values", "seed004-migration-new-fragment", "seed004-migration-old-fragment",
    "seed004-nodeselector-fragment", "seed004-selector-attribute-fragment", "seed004-selector-capacity-fragment",
    "seed004-selector-driver-fragment", "seed005-coexistence-fragment", "seed005-device-plugin-fragment",
}  # fmt: skip


def test_every_seed_has_a_test(shared: Shared) -> None:
    source = Path(__file__).read_text()
    for path in shared("manifests").glob("seed*.yaml"):
        assert f'"{path.stem}"' in source, path.stem
