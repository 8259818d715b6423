"""A node's claims: checks before driver calls, prepare and unprepare calls, and the devices of containers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from allotment.cluster.resources import CLAIMS
from allotment.kubelet_plugin.messages import PreparedDevice, PrepareResult
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.node import claims as claims_module
from allotment.node.checkpoint import FILE, CorruptCheckpoint, load
from allotment.node.claims import NodeClaims
from allotment.node.kubelet_features import KubeletFeatures, kubelet_features
from allotment.node.plugins import Plugins
from allotment.node.pod_claims import ClaimsError
from tests.unit.cluster import idle
from tests.unit.node.world import NAMESPACE, NODE, Cluster, FakeDriver, claim

T = TypeVar("T")


def pod(name: str = "p", *claims: str, **more: Any) -> Tree:
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    spec = {"containers": [], "resourceClaims": entries, **more.pop("spec", {})}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}, "spec": spec, **more}


class Node:
    def __init__(self, *trees: Tree, state: Path | None = None) -> None:
        self.client = Cluster()
        for tree in trees:
            self.client.put(CLAIMS, tree)
        self.driver = FakeDriver()
        self.plugins = Plugins(permissive=False)
        self.plugins.add(NODE, self.driver)
        self.claims = NodeClaims(NODE, self.plugins, self.client, state)

    def restarted(self, state: Path | None) -> NodeClaims:
        return NodeClaims(NODE, self.plugins, self.client, state)


def done(work: Coroutine[Any, Any, T]) -> T:
    return idle.run(asyncio.wait_for(work, 5))


def refused(node: Node, tree: Tree) -> str:
    with pytest.raises(ClaimsError) as caught:
        done(node.claims.prepare(tree))
    return str(caught.value)


def generated(name: str | None) -> Tree:
    statuses = [{"name": "c"} | ({"resourceClaimName": name} if name else {})]
    return pod(
        spec={"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]},
        status={"resourceClaimStatuses": statuses},
    )


# --- checks ---------------------------------------------------------------------------------------------------------


def test_a_missing_claim_fails() -> None:
    node = Node()
    assert (
        refused(node, pod("p", "gpu"))
        == 'prepare dynamic resources: fetch ResourceClaim gpu: resourceclaims "gpu" not found'
    )
    assert not node.claims.has_claims("uid-p"), "a rejected pod has no prepared claims"


def test_a_claim_that_is_not_created_yet_fails() -> None:
    tree = pod(spec={"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]})
    assert refused(Node(), tree) == 'prepare dynamic resources: pod "ns/p": ResourceClaim not created yet'


def test_a_claim_generated_for_another_pod_fails() -> None:
    owner = {"controller": True, "kind": "Pod", "name": "q", "uid": "uid-q"}
    node = Node(claim("gpu", metadata={"ownerReferences": [owner]}))
    assert refused(node, generated("gpu")) == (
        "prepare dynamic resources: ResourceClaim ns/gpu was not created for Pod ns/p (Pod is not owner)"
    )


def test_a_claim_reserved_for_others_fails() -> None:
    assert refused(Node(claim(users=["q"])), pod("p", "gpu")) == (
        "prepare dynamic resources: pod p (uid-p) is not allowed to use ResourceClaim gpu (uid-of-gpu)"
    )


def test_an_unallocated_claim_fails() -> None:
    node = Node(claim(status={"allocation": None}))
    assert refused(node, pod("p", "gpu")) == "prepare dynamic resources: ResourceClaim gpu: not allocated"


def test_an_unregistered_driver_fails() -> None:
    node = Node(claim(driver="nic.example.com"), claim("other"))
    assert refused(node, pod("p", "other", "gpu")) == (
        "prepare dynamic resources: DRA driver nic.example.com is not registered"
    )
    assert not node.driver.calls, "no driver is called before all claims are checked"


def test_an_unregistered_driver_fails_even_if_the_claim_is_prepared() -> None:
    node = Node(claim(users=["p", "q"]))
    done(node.claims.prepare(pod("p", "gpu")))
    node.plugins.remove(NODE, node.driver.name)
    assert refused(node, pod("q", "gpu")).endswith("DRA driver gpu.example.com is not registered")


def test_an_old_claim_of_the_same_name_fails() -> None:
    node = Node(claim())
    done(node.claims.prepare(pod("p", "gpu")))
    node.client.put(CLAIMS, claim(users=["q"], uid="new"))
    assert refused(node, pod("q", "gpu")) == (
        "prepare dynamic resources: old ResourceClaim with same name gpu and different UID uid-of-gpu still exists"
        " (previous pod force-deleted?!)"
    )


# --- results of drivers ---------------------------------------------------------------------------------------------


def test_a_failed_driver_call_fails() -> None:
    node = Node(claim())
    node.driver.fails = "rpc error: code = Unavailable desc = gone"
    message = "prepare dynamic resources: NodePrepareResources: rpc error: code = Unavailable desc = gone"
    assert refused(node, pod("p", "gpu")) == message
    assert node.claims.has_claims("uid-p"), "the driver may have prepared the claim"


def test_a_failed_claim_does_not_affect_the_others() -> None:
    node = Node(claim(), claim("two"))
    node.driver.prepare_results["two"] = PrepareResult(error="no such device")
    message = "prepare dynamic resources: NodePrepareResources failed for ResourceClaim two: no such device"
    assert refused(node, pod("p", "gpu", "two")) == message
    del node.driver.prepare_results["two"]
    done(node.claims.prepare(pod("p", "gpu", "two")))
    assert node.driver.calls == [("prepare", ["gpu", "two"]), ("prepare", ["two"])], "one call, then what is left"


def test_claims_missing_from_a_response_fail() -> None:
    node = Node(claim(), claim("two"))
    node.driver.silent = {"gpu", "two"}
    assert refused(node, pod("p", "gpu", "two")).endswith(": NodePrepareResources skipped 2 ResourceClaims")


def test_a_result_for_an_unknown_claim_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(claim())

    async def confused(claims: Any) -> dict[str, PrepareResult]:
        return {"stranger": PrepareResult()}

    monkeypatch.setattr(node.driver, "prepare", confused)
    message = "NodePrepareResources returned result for unknown claim UID stranger"
    assert refused(node, pod("p", "gpu")).endswith(message)


def test_a_driver_call_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(claim())

    async def slow(claims: Any) -> dict[str, PrepareResult]:
        await asyncio.sleep(10)
        return {}

    monkeypatch.setattr(claims_module, "_CALL_SECONDS", 0.01)
    monkeypatch.setattr(node.driver, "prepare", slow)
    message = "NodePrepareResources: rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert refused(node, pod("p", "gpu")).endswith(message)


# --- shared claims --------------------------------------------------------------------------------------------------


def test_a_shared_claim_is_prepared_once_and_unprepared_once() -> None:
    node = Node(claim(users=["p", "q", "r"]))

    async def lives() -> None:
        await asyncio.gather(*(node.claims.prepare(pod(name, "gpu")) for name in ("p", "q", "r")))
        await asyncio.gather(*(node.claims.unprepare(f"uid-{name}") for name in ("p", "q", "r")))

    done(lives())
    assert node.driver.calls == [("prepare", ["gpu"]), ("unprepare", ["gpu"])]
    assert not any(node.claims.has_claims(f"uid-{name}") for name in ("p", "q", "r"))


def test_unprepare_is_retried_until_it_succeeds() -> None:
    node = Node(claim())
    done(node.claims.prepare(pod("p", "gpu")))
    node.driver.unprepare_errors["gpu"] = "busy"
    for _ in range(2):
        with pytest.raises(
            ClaimsError,
            match=r"^unprepare dynamic resources: NodeUnprepareResources failed for ResourceClaim gpu: busy",
        ):
            done(node.claims.unprepare("uid-p"))
    node.plugins.remove(NODE, node.driver.name)
    with pytest.raises(ClaimsError, match=r"DRA driver gpu\.example\.com is not registered"):
        done(node.claims.unprepare("uid-p"))
    node.driver.unprepare_errors.clear()
    node.plugins.add(NODE, node.driver)
    done(node.claims.unprepare("uid-p"))
    assert not node.claims.has_claims("uid-p")


def test_claims_of_deleted_pods_are_unprepared() -> None:
    node = Node(claim(users=["p"]), claim("two", users=["q"]))
    done(node.claims.prepare(pod("p", "gpu")))
    done(node.claims.prepare(pod("q", "two")))
    done(node.claims.reconcile(lambda uid: uid == "uid-q"))
    assert node.driver.calls[-1] == ("unprepare", ["gpu"])
    assert node.claims.has_claims("uid-q")


# --- devices of containers ------------------------------------------------------------------------------------------

DEVICES = PrepareResult((
    PreparedDevice(("gpu",), NODE, "gpu-0", ("v/c=gpu", "v/c=common")),
    PreparedDevice(("nic",), NODE, "nic-0", ("v/c=nic", "v/c=common")),
    PreparedDevice((), NODE, "all", ("v/c=all",)),
))  # fmt: skip


@pytest.mark.parametrize(
    ("claims", "ids"),
    [
        ([], ()),
        ([{"name": "gpu"}], ("v/c=gpu", "v/c=common", "v/c=nic", "v/c=all")),
        ([{"name": "gpu", "request": "nic"}], ("v/c=nic", "v/c=common", "v/c=all")),
        (
            [{"name": "gpu", "request": "gpu"}, {"name": "gpu", "request": "nic"}],
            ("v/c=gpu", "v/c=common", "v/c=all", "v/c=nic"),
        ),
        ([{"name": "gpu", "request": "unknown"}], ("v/c=all",)),
        ([{"name": "other"}], ()),
    ],
    ids=["no claims", "all requests", "one request", "two requests", "an unknown request", "another claim"],
)  # fmt: skip
def test_a_container_gets_only_its_claims_and_requests(claims: list[Tree], ids: tuple[str, ...]) -> None:
    node = Node(claim())
    node.driver.prepare_results["gpu"] = DEVICES
    tree = pod("p", "gpu")
    done(node.claims.prepare(tree))
    assert node.claims.cdi_ids(tree, {"name": "main", "resources": {"claims": claims}}) == ids


def test_a_container_gets_the_devices_of_its_extended_resources() -> None:
    node = Node(claim("extended"))
    node.driver.prepare_results["extended"] = PrepareResult((
        PreparedDevice(("container-0-request-0",), NODE, "gpu-0", ("v/c=0",)),
        PreparedDevice(("container-1-request-0",), NODE, "gpu-1", ("v/c=1",)),
    ))  # fmt: skip
    mappings = [
        {"containerName": name, "resourceName": "example.com/gpu", "requestName": f"container-{i}-request-0"}
        for i, name in enumerate(("init", "main"))
    ]
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "extended", "requestMappings": mappings}}
    tree = pod("p", status=status)
    done(node.claims.prepare(tree))
    container = {"resources": {"requests": {"example.com/gpu": "1"}}}
    assert node.claims.cdi_ids(tree, {"name": "init", **container}) == ("v/c=0",)
    assert node.claims.cdi_ids(tree, {"name": "main", **container}) == ("v/c=1",)
    assert node.claims.cdi_ids(tree, {"name": "other", **container}) == ()
    assert node.claims.cdi_ids(tree, {"name": "main"}) == (), "it requests none"


def test_a_claim_that_was_not_needed_is_skipped() -> None:
    node = Node()
    done(node.claims.prepare(generated(None)))
    assert not node.driver.calls


# --- the checkpoint -------------------------------------------------------------------------------------------------


def test_the_checkpoint_is_written_before_drivers_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(claim(), state=tmp_path)
    recorded: list[Any] = []

    async def looks(claims: Any) -> dict[str, PrepareResult]:
        recorded.extend(load(tmp_path))
        return {claims[0].uid: PrepareResult((PreparedDevice(("gpu",), NODE, "gpu-0", ("v/c=0",)),))}

    monkeypatch.setattr(node.driver, "prepare", looks)
    done(node.claims.prepare(pod("p", "gpu")))
    assert recorded[0].pods == {"uid-p"}
    assert recorded[0].drivers == {"gpu.example.com": ()}
    (after,) = load(tmp_path)
    assert after.drivers["gpu.example.com"][0].cdi_ids == ("v/c=0",)
    done(node.claims.unprepare("uid-p"))
    assert load(tmp_path) == ()


def test_after_a_restart_claims_are_prepared_again_and_then_unprepared(tmp_path: Path) -> None:
    node = Node(claim(), claim("two", users=["q"]), state=tmp_path)
    done(node.claims.prepare(pod("p", "gpu")))
    done(node.claims.prepare(pod("q", "two")))
    again = node.restarted(tmp_path)
    done(again.prepare(pod("p", "gpu")))
    done(again.reconcile(lambda uid: uid == "uid-p"))
    assert node.driver.calls[2:] == [("prepare", ["gpu"]), ("unprepare", ["two"])]


def test_a_corrupt_checkpoint_is_rejected(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'{"Data":"{}","Checksum":1}')
    with pytest.raises(CorruptCheckpoint):
        Node(state=tmp_path)


# --- claims of groups -----------------------------------------------------------------------------------------------


def of_group(name: str = "g", **more: Any) -> Tree:
    """A claim that was created and reserved for a PodGroup."""
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "controller": True, "kind": "PodGroup", "name": name}
    reserved = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name, "uid": f"uid-{name}"}
    metadata = {"ownerReferences": [{**owner, "uid": f"uid-{name}"}]}
    return claim("gpu", metadata=metadata, status={"reservedFor": [reserved], **more})


def member(name: str = "p", group: str = "g") -> Tree:
    tree = generated("gpu")
    metadata = {**tree["metadata"], "name": name, "uid": f"uid-{name}"}
    return {**tree, "metadata": metadata, "spec": {**tree["spec"], "schedulingGroup": {"podGroupName": group}}}


def with_groups(*trees: Tree) -> Node:
    node = Node(*trees)
    node.claims = NodeClaims(NODE, node.plugins, node.client, features=KubeletFeatures(group_claims=True))
    return node


def test_pods_of_a_group_have_its_claim_prepared_once() -> None:
    node = with_groups(of_group())

    async def lives() -> None:
        for name in ("p", "q"):
            await node.claims.prepare(member(name))
        for name in ("p", "q"):
            await node.claims.unprepare(f"uid-{name}")

    done(lives())
    assert node.driver.calls == [("prepare", ["gpu"]), ("unprepare", ["gpu"])]


def test_a_claim_of_a_group_cannot_be_used_by_other_pods() -> None:
    assert refused(with_groups(of_group()), member(group="h")) == (
        "prepare dynamic resources: ResourceClaim ns/gpu was not created for Pod ns/p"
        " (neither Pod nor PodGroup h is the owner)"
    )
    assert refused(with_groups(of_group()), generated("gpu")).endswith("for Pod ns/p (Pod is not owner)")
    assert refused(with_groups(of_group(reservedFor=[])), member()) == (
        "prepare dynamic resources: pod p (uid-p) is not allowed to use ResourceClaim gpu (uid-of-gpu)"
    )


def test_without_the_gate_a_pod_uses_only_its_own_claims() -> None:
    assert refused(Node(of_group()), member()) == (
        "prepare dynamic resources: ResourceClaim ns/gpu was not created for Pod ns/p (Pod is not owner)"
    )


# --- skipped operations (KEP-5945) ----------------------------------------------------------------------------------

PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"


def skipping(*operations: list[str], name: str = "gpu", driver: str = "gpu.example.com") -> Tree:
    """A claim with a device for each list of operations to skip."""
    tree = claim(name, driver=driver)
    (result,) = tree["status"]["allocation"]["devices"]["results"]
    results = [{**result, "device": f"gpu-{i}", "skipNodeOperations": each} for i, each in enumerate(operations)]
    return claim(name, driver=driver, status={"allocation": {"devices": {"results": results}}})


def optional_node(*trees: Tree, state: Path | None = None) -> Node:
    node = Node(*trees)
    features = KubeletFeatures(optional_node_operations=True)
    node.claims = NodeClaims(NODE, node.plugins, node.client, state, features)
    return node


async def use(node: Node, name: str = "gpu") -> None:
    await node.claims.prepare(pod("p", name))
    await node.claims.unprepare("uid-p")


@pytest.mark.parametrize(
    ("operations", "calls"),
    [
        ([["*"]], []),
        ([[UNPREPARE]], ["prepare"]),
        ([[PREPARE, UNPREPARE]], []),
        ([["*"], [UNPREPARE]], ["prepare"]),
        ([["*"], []], ["prepare", "unprepare"]),
        ([[UNPREPARE], [PREPARE, UNPREPARE]], ["prepare"]),
    ],
)
def test_an_operation_is_skipped_if_all_devices_of_the_driver_list_it(
    operations: list[list[str]], calls: list[str]
) -> None:
    node = optional_node(skipping(*operations))
    done(use(node))
    assert node.driver.calls == [(call, ["gpu"]) for call in calls]
    assert node.claims.skip_counts == {
        (operation, "gpu.example.com"): 1
        for operation, call in ((PREPARE, "prepare"), (UNPREPARE, "unprepare"))
        if call not in calls
    }
    assert not node.claims.has_claims("uid-p")


def test_a_driver_whose_operations_are_all_skipped_need_not_be_registered() -> None:
    node = optional_node(skipping(["*"], driver="nic.example.com"))
    done(use(node))
    partly = optional_node(skipping([UNPREPARE], driver="nic.example.com"))
    assert refused(partly, pod("p", "gpu")) == "prepare dynamic resources: DRA driver nic.example.com is not registered"


def test_skipped_operations_are_counted_once_for_a_claim_of_several_pods() -> None:
    tree = skipping(["*"])
    tree["status"]["reservedFor"] = claim(users=["p", "q"])["status"]["reservedFor"]
    node = optional_node(tree)

    async def lives() -> None:
        for name in ("p", "q"):
            await node.claims.prepare(pod(name, "gpu"))
        for name in ("p", "q"):
            await node.claims.unprepare(f"uid-{name}")

    done(lives())
    assert set(node.claims.skip_counts.values()) == {1}


def test_skipped_operations_are_known_after_a_restart(tmp_path: Path) -> None:
    node = optional_node(skipping([UNPREPARE]), state=tmp_path)
    done(node.claims.prepare(pod("p", "gpu")))
    again = NodeClaims(NODE, Plugins(permissive=False), node.client, tmp_path)
    done(again.unprepare("uid-p"))
    assert load(tmp_path) == ()


def test_a_claim_with_skipped_operations_fails_without_the_gate() -> None:
    assert refused(Node(skipping(["*"])), pod("p", "gpu")) == (
        "prepare dynamic resources: ResourceClaim gpu: DRAOptionalNodeOperations feature gate is disabled on kubelet"
    )


# --- pods that arrive during unprepare ------------------------------------------------------------------------------


def shared_node(release: str) -> Node:
    node = Node(claim(users=["p", "q"]))
    node.claims = NodeClaims(NODE, node.plugins, node.client, features=kubelet_features(Features(release)))
    return node


def test_a_pod_cannot_use_a_claim_that_is_being_unprepared() -> None:
    node = shared_node("1.37")
    seen: list[str] = []

    async def run() -> None:
        await node.claims.prepare(pod("p", "gpu"))
        unpreparing = asyncio.create_task(node.claims.unprepare("uid-p"))
        await asyncio.sleep(0)
        with pytest.raises(ClaimsError) as caught:
            await node.claims.prepare(pod("q", "gpu"))
        seen.append(str(caught.value))
        await unpreparing
        await node.claims.prepare(pod("q", "gpu"))  # a later attempt

    done(run())
    assert seen == ["prepare dynamic resources: ResourceClaim gpu is being unprepared"]
    assert [call for call, _ in node.driver.calls] == ["prepare", "unprepare", "prepare"]


def test_a_claim_whose_unprepare_failed_is_still_being_unprepared() -> None:
    node = shared_node("1.37")
    done(node.claims.prepare(pod("p", "gpu")))
    node.driver.unprepare_errors["gpu"] = "busy"
    with pytest.raises(ClaimsError, match="busy"):
        done(node.claims.unprepare("uid-p"))
    assert refused(node, pod("q", "gpu")) == ("prepare dynamic resources: ResourceClaim gpu is being unprepared")


def test_until_1_36_the_pod_waits_for_the_unprepare() -> None:
    node = shared_node("1.36")

    async def lives() -> None:
        await node.claims.prepare(pod("p", "gpu"))
        await asyncio.gather(node.claims.unprepare("uid-p"), node.claims.prepare(pod("q", "gpu")))

    done(lives())
    assert [call for call, _ in node.driver.calls] == ["prepare", "unprepare", "prepare"]


def test_a_repeated_prepare_replaces_the_devices_of_the_first() -> None:
    node = Node(skipping([], []), claim("nic", driver="nic.example.com"))
    nic = FakeDriver("nic.example.com")
    node.plugins.add(NODE, nic)
    nic.fails = "rpc error: code = Unavailable desc = gone"
    tree = claim()
    results = [{"driver": d, "pool": NODE, "device": "d", "request": "r"} for d in ("gpu.example.com", nic.name)]
    node.client.put(CLAIMS, claim(status={**tree["status"], "allocation": {"devices": {"results": results}}}))
    assert "gone" in refused(node, pod("p", "gpu"))
    nic.fails = ""
    done(node.claims.prepare(pod("p", "gpu")))
    assert len(node.claims.devices(NAMESPACE, "gpu", "")["gpu.example.com"]) == 1
