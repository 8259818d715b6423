"""The articles' manifests come to what they came to on a real cluster.

What that was is in the table of ``manifests/README.md`` beside the manifests: it was run against the real scheduler and
controllers with the very slices that are used here. Where the lab goes further (kubelets), pods run.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from allotment.cluster.resources import CLAIM_TEMPLATES, CLAIMS, DEPLOYMENTS, JOBS
from allotment.model.trees import Tree
from tests.lab.driven import logs
from tests.lab.manifests import Manifests, Shared, accepted, cluster, exactly, parents, pod_with, story
from tests.lab.stage import condition, runs, stage, waits


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


# --- seed 1: one A100, shared and in slices --------------------------------------------------------------------------


def test_the_deployment_gets_an_ampere_and_never_a_t4(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("t4=t4-4x-pcie", "a100=dgx-a100-40gb")) as on:
            await accepted(on, manifests("seed001-rct-ampere-20gi", "seed001-deployment-single"))
            (pod,) = await on.running("gpu-demo", 1)
            assert pod["spec"]["nodeName"] == "a100"
            assert await on.devices(pod) == ["gpu-0"]
            (claim,) = await on.claims(pod)
            assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]

    story(tell)


def test_three_pods_share_one_gpu_by_their_claim(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100") as on:
            await accepted(on, manifests("seed001-claim-timeslicing", "seed001-deployment-timeslicing"))
            pods = await on.running("gpu-demo", 3)
            assert len({pod["spec"]["nodeName"] for pod in pods}) == 1
            assert [await on.devices(pod) for pod in pods] == [["gpu-0"]] * 3
            (claim,) = await on.claims(pods[0])
            assert len(claim["status"]["reservedFor"]) == 3
            (config,) = claim["status"]["allocation"]["devices"]["config"]
            assert config["opaque"]["parameters"]["sharing"]["strategy"] == "TimeSlicing"

    story(tell)


def test_a_container_that_asks_a_request_that_the_claim_lacks_gets_no_device(manifests: Manifests) -> None:
    """The claim for MPS with the Deployment for time slicing: scheduled, and silently without a GPU."""

    async def tell() -> None:
        async with cluster(manifests, "a100") as on:
            deployment = manifests.one("seed001-deployment-timeslicing", "Deployment")
            container = deployment["spec"]["template"]["spec"]["containers"][0]
            container |= {"image": "ubuntu:22.04", "command": ["bash", "-c"], "args": ["nvidia-smi -L; sleep 99"]}
            await accepted(on, [*manifests("seed001-claim-mps"), deployment])
            pods = await on.running("gpu-demo", 3)
            assert [await on.devices(pod) for pod in pods] == [["gpu-0"]] * 3
            assert "GPU 0" not in await logs(on, pods[0], container["name"])

    story(tell)


def test_seven_slices_and_an_eighth_pod_that_waits(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100-mig") as on:
            await accepted(on, manifests("seed001-deployment-mig", "seed001-rct-mig"))
            pods = await on.pods("gpu-demo", lambda pods: len(pods) == 7)
            first = await on.told(pods[0]["metadata"]["name"], "gpu-demo", "(wrong-namespace)")
            assert first.startswith(
                'ResourceClaimTemplate "gpu-demo-mig" is in namespace gpu-demo-1, but the pod is in'
            )
            assert not any(map(condition, pods))  # as Kubernetes has it: parked without a word
            assert not (await on.client.list(CLAIMS)).items

            template = manifests.one("seed001-rct-mig")
            template["metadata"]["namespace"] = "gpu-demo"
            await accepted(on, [template])
            pods = await on.running("gpu-demo", 7)
            given = [name for pod in pods for name in await on.devices(pod)]
            assert len(set(given)) == 7
            assert all("1g5gb" in name for name in given)

            await on.client.patch(DEPLOYMENTS, "gpu-demo-mig", {"spec": {"replicas": 8}}, "gpu-demo")
            pods = await on.pods("gpu-demo", lambda pods: len(pods) == 8 and any(map(waits, pods)))
            (left,) = [pod for pod in pods if not runs(pod)]
            assert "1 cannot allocate all claims" in condition(left)["message"]

    story(tell)


# --- seed 2: classes, sharing, MIG pairs -----------------------------------------------------------------------------


def test_the_class_that_compares_quantities_with_operators_is_refused(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage() as on:
            code, message = await on.post(manifests.one("seed002-deviceclass-high-memory"))
            assert code == 422
            assert "found no matching overload for '_>=_' applied to '(kubernetes.Quantity, kubernetes.Quan" in message

    story(tell)


def test_the_training_job_step_by_step(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100-80gb=4xa100-80gb",)) as on:
            template, job = manifests("seed002-training-job")
            code, message = await on.post(template)
            assert (code, 'unknown field "spec.spec.devices.requests[0].deviceClassName"' in message) == (400, True)
            code, message = await on.post(template, strict=False)
            assert (code, "exactly one of `exactly` or `firstAvailable` is required" in message) == (422, True)
            older = {**copy.deepcopy(template), "apiVersion": "resource.k8s.io/v1beta1"}
            older["metadata"]["namespace"] = "older"
            await accepted(on, [older, job])

            (pod,) = await on.pods("default", lambda pods: len(pods) == 1)
            name = pod["metadata"]["name"]
            await on.told(name, "default", "(wrong-namespace)")
            await on.client.delete(CLAIM_TEMPLATES, "training-gpu", "older")

            devices = template["spec"]["spec"]["devices"]
            devices["requests"] = [exactly(request) for request in devices["requests"]]
            await accepted(on, [template])
            told = await on.told(name, "default", "device class high-memory-gpu does not exist")
            assert told.startswith('DeviceClass "high-memory-gpu" does not exist')

            class_ = manifests.one("seed002-deviceclass-high-memory")
            cel = class_["spec"]["selectors"][0]["cel"]
            cel["expression"] = cel["expression"].replace(
                '.memory >= quantity("40Gi")', '.memory.compareTo(quantity("40Gi")) >= 0'
            )
            await accepted(on, [class_])
            (pod,) = await on.running("default", 1)
            assert await on.devices(pod) == ["gpu-0"]
            job = await on.client.get(JOBS, "finetune-qwen", "default")
            assert job["status"].get("active") == 1 or job["status"].get("succeeded") == 1

    story(tell)


def test_two_models_wait_for_their_claim_and_its_class_and_share_a_gpu(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100") as on:
            claim, *pods = manifests("seed002-shared-inference")
            code, message = await on.post(claim)
            assert (code, "unknown field" in message) == (400, True)
            await accepted(on, pods)
            for pod in pods:
                told = await on.told(pod["metadata"]["name"], "default", "(claim-missing)")
                assert 'ResourceClaim "shared-inference-gpu" does not exist in namespace default' in told

            devices = claim["spec"]["devices"]
            devices["requests"] = [exactly(request) for request in devices["requests"]]
            await accepted(on, [claim])
            for pod in pods:
                await on.told(pod["metadata"]["name"], "default", "device class any-nvidia-gpu does not exist")

            class_ = manifests.one("classes/nvidia")
            class_["metadata"]["name"] = "any-nvidia-gpu"
            del class_["spec"]["extendedResourceName"]
            await accepted(on, [class_])
            shared = await on.running("default", 2)
            assert [await on.devices(pod) for pod in shared] == [["gpu-0"]] * 2

    story(tell)


def _mig_mixed(manifests: Manifests) -> tuple[Tree, Tree]:
    template, deployment = manifests("seed002-mig-mixed")
    devices = template["spec"]["spec"]["devices"]
    devices["requests"] = [exactly(request) for request in devices["requests"]]
    return template, deployment


def test_pairs_of_slices_of_one_gpu(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "h100-mig") as on:
            code, message = await on.post(manifests.one("seed002-mig-mixed"))
            assert (code, "unknown field" in message) == (400, True)
            await accepted(on, _mig_mixed(manifests))
            pods = await on.running("default", 2)
            used = []
            for pod in pods:
                large, small = await on.devices(pod)
                assert ("3g40gb" in large, "1g10gb" in small) == (True, True)
                (parent,) = await parents(on, [large, small])
                used.append(parent)
            assert len(set(used)) == 2

            await on.client.patch(DEPLOYMENTS, "mig-inference", {"spec": {"replicas": 3}}, "default")
            pods = await on.pods("default", lambda pods: len(pods) == 3 and any(map(waits, pods)))
            assert sum(map(runs, pods)) == 2

    story(tell)


def test_an_a100_of_40gb_has_no_such_profiles(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100-mig") as on:
            await accepted(on, _mig_mixed(manifests))
            pods = await on.pods("default", lambda pods: len(pods) == 2 and all(map(waits, pods)))
            first = condition(pods[0])["message"].splitlines()[0]
            assert first.startswith('no device has profile "3g.40gb"; the devices have')
            assert first.endswith("(selector-matches-nothing)")

    story(tell)


# --- seed 3: before DRA was what it is -------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["seed003-shared-claim-v1alpha3", "seed003-training-template-v1alpha3"])
def test_nothing_of_the_third_article_is_accepted(manifests: Manifests, file: str) -> None:
    async def tell() -> None:
        async with stage() as on:
            asked, user = manifests(file)
            code, message = await on.post(asked)
            assert (code, message) == (404, "404 page not found\n")
            code, message = await on.post(user)
            assert code == 400
            assert 'unknown field "' in message
            assert 'resourceClaims[0].source"' in message

    story(tell)


# --- seed 4: all GPUs, partitions, classes ---------------------------------------------------------------------------


def test_all_gpus_in_one_claim_and_none_if_one_is_taken(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100") as on:
            await accepted(on, manifests("seed004-deviceclass-nvidia", "seed004-claim-all-gpus"))
            await accepted(on, [pod_with("shared-gpu-claim", "a"), pod_with("shared-gpu-claim", "b")])
            pods = await on.running("default", 2)
            assert [await on.devices(pod) for pod in pods] == [[f"gpu-{n}" for n in range(8)]] * 2

            other = manifests.one("seed004-claim-all-gpus")
            other["metadata"]["name"] = "other"
            await accepted(on, [other, pod_with("other", "late")])
            told = await on.told("late", "default", "(devices-in-use)")
            assert "claim default/shared-gpu-claim" in told

    story(tell)


def test_equality_is_not_at_least(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a100=dgx-a100-40gb", "a100-80gb=4xa100-80gb")) as on:
            await accepted(on, manifests("seed004-deviceclass-nvidia", "seed004-rct-64gi"))
            await accepted(on, [pod_with("per-pod-gpu", template=True)])
            told = await on.told("user", "default", "(selector-matches-nothing)")
            assert told.startswith("no device has memory 64Gi; the devices have ")
            assert "  to make it fit on a100-80gb: request memory at least 64Gi" in told

    story(tell)


def test_a_class_that_no_driver_installs(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100-mig") as on:
            await accepted(on, manifests("seed004-rct-mig-1g", "seed004-job-tf-mnist"))
            (pod,) = await on.pods("default", lambda pods: len(pods) == 1)
            told = await on.told(pod["metadata"]["name"], "default", "device class nvidia-mig does not exist")
            assert told.startswith('DeviceClass "nvidia-mig" does not exist. Did you mean "mig.nvidia.com"?')
            class_ = next(t for t in manifests("classes/nvidia") if t["metadata"]["name"] == "mig.nvidia.com")
            class_["metadata"]["name"] = "nvidia-mig"
            await accepted(on, [class_])
            (pod,) = await on.running("default", 1)
            (device,) = await on.devices(pod)
            assert "-mig-" in device

    story(tell)


@pytest.mark.parametrize("file", ["seed004-resourceslice-mi300x", "seed004-resourceslice-partition"])
def test_slices_without_a_pool_are_refused(manifests: Manifests, file: str) -> None:
    async def tell() -> None:
        async with stage() as on:
            one = manifests.one(file)
            code, message = await on.post(one)
            assert code == 422
            assert "spec.pool.name: Required value" in message
            assert "must be greater than zero" in message
            one["spec"]["pool"] = {"name": "gpu-worker-2", "generation": 1, "resourceSliceCount": 1}
            await accepted(on, [one])

    story(tell)


def test_both_containers_of_a_pod_see_one_gpu(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100") as on:
            await accepted(on, manifests("seed004-pod-gpu-test2"))
            await on.told("pod", "gpu-test2", "(template-missing)")
            assert not (await on.client.list(CLAIMS)).items
            template = manifests.one("nvidia/quickstart/v1/gpu-test1", "ResourceClaimTemplate")
            template["metadata"]["namespace"] = "gpu-test2"
            await accepted(on, [template])
            (pod,) = await on.running("gpu-test2", 1)
            first, second = [await logs(on, pod, name) for name in ("ctr0", "ctr1")]
            assert first == second
            assert "UUID: GPU-" in first

    story(tell)


def test_two_partitions_of_one_gpu_by_the_attribute_that_is_published(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "mi300x-cpx") as on:
            claim = manifests.one("seed004-claim-two-partitions")
            await accepted(on, [claim, pod_with("two-partitions-same-parent", namespace="gpu-test")])
            told = await on.told("user", "gpu-test", "(constraint-attribute-unpublished)")
            assert 'Did you mean "gpu.amd.com/parentDeviceID"?' in told
            assert "1 cannot allocate all claims" in told

            fixed = copy.deepcopy(claim)
            fixed["metadata"]["name"] = "fixed"
            fixed["spec"]["devices"]["constraints"][0]["matchAttribute"] = "gpu.amd.com/parentDeviceID"
            await accepted(on, [fixed, pod_with("fixed", "second", "gpu-test")])
            pod = await on.until(runs, "second", "gpu-test")
            assert len(await parents(on, await on.devices(pod), "parentDeviceID")) == 1

    story(tell)


def test_by_the_device_id_of_2026_any_two_partitions_do(manifests: Manifests) -> None:
    """It is the model's then, and no longer the card's."""

    async def tell() -> None:
        async with stage(fleet=("mi300x=mi300x-8x-oam/cpx",)) as on:
            await accepted(on, manifests("seed004-claim-two-partitions"))
            await accepted(on, [pod_with("two-partitions-same-parent", namespace="gpu-test")])
            (pod,) = await on.running("gpu-test", 1)
            assert len(await on.devices(pod)) == 2

    story(tell)


# --- seed 5: accessors that CEL for devices does not have ------------------------------------------------------------


def test_a_class_for_a_driver_that_is_none_selects_nothing_without_an_error(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100") as on:
            older = manifests.one("seed005-deviceclass-h100-v1beta1")
            newer = {**copy.deepcopy(older), "apiVersion": "resource.k8s.io/v1", "metadata": {"name": "relabelled"}}
            await accepted(on, [older, newer])
            claim = manifests.one("seed005-claim-training-v1beta1")
            code, message = await on.post(claim)
            assert code == 422
            assert "found no matching overload for '_>=_'" in message
            await accepted(on, manifests("seed005-pod-distributed-training"))
            await on.told("distributed-training", "default", '"training-gpus" does not exist in namespace default')

            del claim["spec"]["devices"]["requests"][0]["selectors"]
            await accepted(on, [claim])
            told = await on.told("distributed-training", "default", "(unknown-driver)")
            assert told.startswith('driver "nvidia.com" publishes no ResourceSlice. Did you mean "gpu.nvidia.com"?')
            assert condition(await on.pod("distributed-training", "default"))["reason"] == "Unschedulable"

    story(tell)


def test_a_selector_that_stops_with_an_error_is_an_error_and_not_a_lack(manifests: Manifests) -> None:
    async def tell() -> None:
        async with cluster(manifests, "a100-mig") as on:
            claim = manifests.one("seed005-claim-mig-v1beta1")
            code, _ = await on.post({**claim, "apiVersion": "resource.k8s.io/v1"})
            assert code == 400
            await accepted(on, [claim, pod_with("small-inference-gpu")])
            await on.told("user", "default", "device class nvidia-gpu-mig does not exist")
            class_ = next(t for t in manifests("classes/nvidia") if t["metadata"]["name"] == "mig.nvidia.com")
            class_["metadata"]["name"] = "nvidia-gpu-mig"
            await accepted(on, [class_])
            told = await on.told("user", "default", "CEL runtime error: no such key: string")
            assert told.startswith('no device publishes anything in the domain "migProfile".')
            assert condition(await on.pod("user", "default"))["reason"] == "SchedulerError"

    story(tell)


# --- nothing is left out ---------------------------------------------------------------------------------------------

#: No objects of any kind: lines of a pod or a selector, and values for charts.
NO_OBJECTS = {
    "seed001-resourceslice-fragment", "seed002-device-plugin-fragment", "seed004-helm-dra-values",
    "seed004-helm-operator-values", "seed004-migration-new-fragment", "seed004-migration-old-fragment",
    "seed004-nodeselector-fragment", "seed004-selector-attribute-fragment", "seed004-selector-capacity-fragment",
    "seed004-selector-driver-fragment", "seed005-coexistence-fragment", "seed005-device-plugin-fragment",
}  # fmt: skip


def test_every_seed_has_its_test(shared: Shared) -> None:
    told = Path(__file__).read_text()
    for path in shared("manifests").glob("seed*.yaml"):
        assert f'"{path.stem}"' in told, path.stem
