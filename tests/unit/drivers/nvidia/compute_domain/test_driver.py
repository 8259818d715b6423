from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.cluster.resources import NODES
from allotment.drivers.driver import AllocatedClaim, AllocatedDevice, ClaimError
from allotment.drivers.nvidia.compute_domain.domains import ComputeDomain
from allotment.drivers.nvidia.compute_domain.driver import ComputeDomainDriver
from allotment.drivers.nvidia.compute_domain.fabric import SimulatedFabric, clique_of
from allotment.drivers.nvidia.compute_domain.names import COMPUTE_DOMAINS, LABEL
from allotment.drivers.preparation import configuration
from allotment.fleet.hardware import hardware
from allotment.fleet.nvidia import Fabric, gpus_of
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient, refusal

DOMAIN = ComputeDomain("cd-1", "team", "training")
CLIQUE = "fab-1.7"


class FakeDomains:
    """A fixed set of domains; ``on_wait`` is called when the driver waits."""

    def __init__(self, *domains: ComputeDomain) -> None:
        self.by_uid = {domain.uid: domain for domain in domains}
        self.on_wait: Callable[[], None] = lambda: None

    def find(self, uid: str) -> ComputeDomain | None:
        return self.by_uid.get(uid)

    async def wait(self, uid: str, node: str, seconds: float) -> bool:
        self.on_wait()
        return node in self.by_uid[uid].ready


class Node:
    """A node with the driver."""

    def __init__(self, folder: Path | None = None) -> None:
        self.client = MemoryClient()
        self.client.put(NODES, {"metadata": {"name": "n1"}})
        self.domains = FakeDomains(DOMAIN)
        self.driver = ComputeDomainDriver("n1", SimulatedFabric(CLIQUE, folder), self.client, self.domains)

    def ready(self) -> None:
        self.domains.by_uid["cd-1"] = DOMAIN._replace(ready=frozenset({"n1"}))

    def claim(self, device: str, config: Any, namespace: str = "team", uid: str = "c1") -> AllocatedClaim:
        return AllocatedClaim(uid, namespace, uid, (AllocatedDevice("r", "n1", device, config),))

    async def prepare(self, claim: AllocatedClaim) -> tuple[Tree, Any]:
        plan = self.driver.plan(claim)
        (ready,) = (await self.driver.prepare(claim, plan)).devices.values()
        return plan, ready

    @property
    def label(self) -> str | None:
        value: str | None = self.client.objects[NODES, "", "n1"]["metadata"].get("labels", {}).get(LABEL)
        return value


def config(kind: str, node: Node, **fields: Any) -> Any:
    parameters = {"apiVersion": COMPUTE_DOMAINS.api_version, "kind": kind, **fields}
    value = configuration.decode(parameters, node.driver.configs)
    node.driver.validate(value)
    return value


def channel(node: Node, domain: str = "cd-1", **fields: Any) -> Any:
    return config("ComputeDomainChannelConfig", node, domainID=domain, **fields)


def daemon(node: Node, domain: str = "cd-1") -> Any:
    return config("ComputeDomainDaemonConfig", node, domainID=domain)


def test_every_node_offers_a_channel_and_a_daemon() -> None:
    (offer,) = idle.run(Node().driver.discover())
    assert [device.name for group in offer.groups for device in group] == ["channel-0", "daemon-0"]


def test_a_channel_labels_the_node_and_waits_for_its_daemon() -> None:
    async def scenario() -> None:
        n = Node()
        n.domains.on_wait = n.ready
        _, ready = await n.prepare(n.claim("channel-0", channel(n)))
        assert n.label == "cd-1"
        assert [node.path for node in ready.edits.device_nodes] == ["/dev/nvidia-caps-imex-channels/channel0"]
        assert ready.status_data == {"domainID": "cd-1", "cliqueID": CLIQUE}

    idle.run(scenario())


def test_a_channel_on_an_unready_node_is_retried_and_keeps_its_label() -> None:
    async def scenario() -> None:
        n = Node()
        claim = n.claim("channel-0", channel(n))
        with pytest.raises(ClaimError, match="node n1 is not ready in ComputeDomain team/training") as caught:
            await n.prepare(claim)
        assert not caught.value.permanent
        await n.driver.unprepare(n.driver.plan(claim))
        # Otherwise the daemon would be stopped each time before it is ready.
        assert n.label == "cd-1"
        n.ready()
        await n.prepare(claim)

    idle.run(scenario())


def test_all_channels_of_a_node() -> None:
    async def scenario() -> None:
        n = Node()
        n.ready()
        _, ready = await n.prepare(n.claim("channel-0", channel(n, allocationMode="All")))
        assert len(ready.edits.device_nodes) == 2048

    idle.run(scenario())


def test_a_claim_of_another_namespace_never_gets_a_channel() -> None:
    n = Node()
    with pytest.raises(ClaimError, match="namespace other, but its ComputeDomain training is in team") as caught:
        n.driver.plan(n.claim("channel-0", channel(n), namespace="other"))
    assert caught.value.permanent


def test_a_missing_domain_may_still_be_created() -> None:
    n = Node()
    with pytest.raises(ClaimError, match="ComputeDomain with UID cd-9 not found") as caught:
        n.driver.plan(n.claim("channel-0", channel(n, "cd-9")))
    assert not caught.value.permanent


def test_a_claim_without_parameters_is_rejected_with_a_hint() -> None:
    n = Node()
    with pytest.raises(ClaimError, match=r"spec\.channel\.resourceClaimTemplate") as caught:
        n.driver.plan(n.claim("channel-0", None))
    assert caught.value.permanent
    with pytest.raises(ClaimError, match="domainID: expected a value, found none"):
        config("ComputeDomainChannelConfig", n)
    with pytest.raises(ClaimError, match="domainID: expected the uid"):
        channel(n, "")


def test_channels_and_daemons_have_separate_parameters() -> None:
    n = Node()
    assert n.driver.config_applies("channel-0", channel(n))
    assert n.driver.config_applies("daemon-0", daemon(n))
    assert not n.driver.config_applies("daemon-0", channel(n))
    assert not n.driver.config_applies("gpu-0", channel(n))


def test_a_node_is_in_one_domain_at_a_time() -> None:
    async def scenario() -> None:
        n = Node()
        n.client.put(NODES, {"metadata": {"name": "n1", "labels": {LABEL: "cd-0"}}})
        with pytest.raises(ClaimError, match=r"still in another ComputeDomain \(cd-0\)") as caught:
            await n.prepare(n.claim("channel-0", channel(n)))
        assert not caught.value.permanent
        assert n.label == "cd-0"

    idle.run(scenario())


def test_labelling_a_node_is_retried_after_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        n = Node()
        n.ready()
        patch, conflicts = n.client.patch, [refusal(409, "Conflict")] * 3

        async def contended(*args: Any, **more: Any) -> Tree:
            if conflicts:
                raise conflicts.pop()
            return await patch(*args, **more)

        monkeypatch.setattr(n.client, "patch", contended)
        await n.prepare(n.claim("channel-0", channel(n)))
        assert n.label == "cd-1"

    idle.run(scenario())


def test_a_daemon_gets_its_domain_and_clique(tmp_path: Path) -> None:
    async def scenario() -> None:
        n = Node(tmp_path)
        plan, ready = await n.prepare(n.claim("daemon-0", daemon(n), namespace="nvidia-dra-driver-gpu"))
        assert set(ready.edits.env) >= {
            f"CLIQUE_ID={CLIQUE}",
            "COMPUTE_DOMAIN_UUID=cd-1",
            "COMPUTE_DOMAIN_NAME=training",
            "COMPUTE_DOMAIN_NAMESPACE=team",
        }
        (mount,) = ready.edits.mounts
        assert (mount.host_path, mount.container_path) == (str(tmp_path / "cd-1"), "/imexd")
        (tmp_path / "cd-1" / "nodes.cfg").write_text("")
        await n.driver.unprepare(plan, (plan,))
        assert (tmp_path / "cd-1").is_dir()
        await n.driver.unprepare(plan)
        await n.driver.unprepare(plan)
        assert list(tmp_path.iterdir()) == []

    idle.run(scenario())


def test_the_clique_of_a_node_is_that_of_all_gpus() -> None:
    gpus = gpus_of(hardware("h100", 2), "n1")
    assert clique_of(gpus) == ""
    assert clique_of([gpu._replace(fabric=Fabric("fab-1", 7)) for gpu in gpus]) == CLIQUE
    assert clique_of([gpu._replace(fabric=Fabric("fab-1", gpu.minor)) for gpu in gpus]) == ""
