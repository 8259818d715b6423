"""``allot cluster-autoscaler`` with a lab, called as Kubernetes' autoscaler calls it: from a claim to a Running pod.

The test plays the autoscaler in a few lines: node groups, their templates, the best group, scaling up and down.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from allotment import grpc_codec
from allotment.externalgrpc import encoding, objects
from allotment.externalgrpc.expander import ExpansionOption
from allotment.externalgrpc.wire import cloud_provider_pb2 as wire
from allotment.externalgrpc.wire import expander_pb2 as expander_wire
from allotment.lab.lab import Lab
from allotment.model.trees import Tree
from tests.polling import wait_until
from tests.unit.externalgrpc import autoscaler

M = TypeVar("M", bound=Message)
T = TypeVar("T")

CLAIM = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "big"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression":
            "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('20Gi')) >= 0"}}],
    }}]}}},
}  # fmt: skip
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"},
    "spec": {
        "containers": [{"name": "c", "image": "app:1", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "big"}],
    },
}  # fmt: skip


class Servers:
    """The servers, and calls to both over TLS with the certificates that they created."""

    def __init__(self, process: subprocess.Popen[str], config: dict[str, str], flags: str) -> None:
        self.process = process
        authority = Path(config["cacert"]).read_bytes()
        client_keys = (Path(config["key"]).read_bytes(), Path(config["cert"]).read_bytes())
        self._cloud = grpc.secure_channel(config["address"], grpc.ssl_channel_credentials(authority, *client_keys))
        found = re.search(r"--grpc-expander-url=(\S+) --grpc-expander-cert=(\S+)", flags)
        assert found is not None
        trusted = Path(found[2]).read_bytes()
        self._expander = grpc.secure_channel(found[1], grpc.ssl_channel_credentials(trusted))

    def cloud(self, name: str, request: Message, answer: type[M]) -> M:
        return self._call(self._cloud, f"/{encoding.CLOUD_PROVIDER}/{name}", request, answer)

    def best(self, request: Message) -> list[str]:
        path = f"/{encoding.EXPANDER}/BestOptions"
        answer = self._call(self._expander, path, request, expander_wire.BestOptionsResponse)
        return [option.nodeGroupId for option in answer.options]

    def _call(self, channel: grpc.Channel, path: str, request: Message, answer: type[M]) -> M:
        method = channel.unary_unary(path, request_serializer=grpc_codec.encode, response_deserializer=bytes)
        return grpc_codec.decode(answer, method(request, timeout=120, wait_for_ready=True))

    def close(self) -> None:
        self._cloud.close()
        self._expander.close()


@contextmanager
def servers(lab: Lab, folder: Path, *options: str) -> Iterator[Servers]:
    """Start the servers with a command line on free ports, and interrupt them at the end."""
    command = [
        sys.executable, "-m", "allotment.cli.main", "cluster-autoscaler", "--kubeconfig", str(lab.kubeconfig),
        "--provider", "simulated", "--provisioning-delay", "100ms", "--cert-dir", str(folder / "pki"),
        "--zones", "us-east-1a",
        "--cloud-provider", "127.0.0.1:0", "--expander", "127.0.0.1:0", *options,
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ})
    assert process.stdout is not None
    lines: list[str] = []
    try:
        while not lines or not lines[-1].startswith("grpc_timeout"):
            line = process.stdout.readline()
            assert line, (folder / "log").read_text()
            lines.append(line)
        config = dict(re.findall(r'^(\w+): "(.*)"$', "".join(lines), re.MULTILINE))
        created = Servers(process, config, "".join(lines))
        yield created
        created.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert "Traceback" not in (folder / "log").read_text()


def unschedulable(lab: Lab) -> Sequence[Tree]:
    return [
        pod
        for pod in lab.list("pods")
        if any(c["type"] == "PodScheduled" and c["status"] == "False" for c in pod["status"].get("conditions", ()))
    ]


def groups(servers_: Servers) -> list[str]:
    servers_.cloud("Refresh", wire.RefreshRequest(), wire.RefreshResponse)
    answer = servers_.cloud("NodeGroups", wire.NodeGroupsRequest(), wire.NodeGroupsResponse)
    return [group.id for group in answer.nodeGroups]


def template(servers_: Servers, group: str) -> Tree:
    request = wire.NodeGroupTemplateNodeInfoRequest(id=group)
    answer = servers_.cloud("NodeGroupTemplateNodeInfo", request, wire.NodeGroupTemplateNodeInfoResponse)
    return objects.from_bytes(objects.NODE, answer.nodeBytes)


def size(servers_: Servers, group: str) -> int:
    request = wire.NodeGroupTargetSizeRequest(id=group)
    return servers_.cloud("NodeGroupTargetSize", request, wire.NodeGroupTargetSizeResponse).targetSize


@pytest.fixture
def lab() -> Iterator[Lab]:
    # One node with a T4, so that the vendor's classes exist; a T4 has too little memory for the claim.
    with Lab(fleet="t4", speed=20.0) as running:
        yield running


def test_from_a_claim_to_a_running_pod_and_back(lab: Lab, tmp_path: Path) -> None:
    wanted = ("--nodes", "0:3:aws/g4dn.xlarge", "--nodes", "0:3:aws/g5.xlarge", "--nodes", "0:3:aws/g6.xlarge")
    with servers(lab, tmp_path, *wanted) as running_servers:
        g4dn, g5, g6 = groups(running_servers)
        lab.apply([CLAIM, POD])
        (pod,) = wait_until(lambda: unschedulable(lab))
        options = [ExpansionOption(group, 1, "", (pod,)) for group in (g4dn, g5, g6)]
        question = autoscaler.encode_expander_request(
            options, {group: template(running_servers, group) for group in (g4dn, g5, g6)}
        )
        # The cheapest of them has no GPU that matches the claim.
        assert running_servers.best(question) == [g6]
        running_servers.cloud(
            "NodeGroupIncreaseSize", wire.NodeGroupIncreaseSizeRequest(id=g6, delta=1),
            wire.NodeGroupIncreaseSizeResponse,
        )  # fmt: skip
        assert size(running_servers, g6) == 1
        wait_until(lambda: lab.get("pod", "train")["status"]["phase"] == "Running" or None)
        node = lab.get("node", lab.get("pod", "train")["spec"]["nodeName"])
        assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "g6.xlarge"
        # The new node matches the template.
        expected = template(running_servers, g6)
        assert node["status"]["allocatable"] == expected["status"]["allocatable"]
        del expected["metadata"]["labels"]["kubernetes.io/hostname"]
        assert expected["metadata"]["labels"].items() <= node["metadata"]["labels"].items()

    shown = wire.ExternalGrpcNode(
        providerID=node["spec"]["providerID"], name=node["metadata"]["name"], labels=node["metadata"]["labels"]
    )
    # another instance of the servers, which knows only the cluster's state
    with servers(lab, tmp_path, *wanted) as running_servers:
        groups(running_servers)
        found = running_servers.cloud(
            "NodeGroupForNode", wire.NodeGroupForNodeRequest(node=shown), wire.NodeGroupForNodeResponse
        )
        assert found.nodeGroup.id == g6
        instances = running_servers.cloud(
            "NodeGroupNodes", wire.NodeGroupNodesRequest(id=g6), wire.NodeGroupNodesResponse
        )
        assert [(instance.id, instance.status.instanceState) for instance in instances.instances] == [
            (shown.providerID, 1)
        ]
        lab.delete("pod", "train")
        running_servers.cloud(
            "NodeGroupDeleteNodes", wire.NodeGroupDeleteNodesRequest(id=g6, nodes=[shown]),
            wire.NodeGroupDeleteNodesResponse,
        )  # fmt: skip
        assert size(running_servers, g6) == 0
        wait_until(lambda: len(lab.list("nodes")) == 1 or None)


def test_an_order_that_is_out_of_stock_is_reported_and_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    with servers(
        lab, tmp_path, "--nodes", "0:3:aws/g6.xlarge", "--cloud-fault", "aws/g6.xlarge=no-capacity"
    ) as running_servers:
        (g6,) = groups(running_servers)
        with pytest.raises(grpc.RpcError) as messages:
            running_servers.cloud(
                "NodeGroupIncreaseSize", wire.NodeGroupIncreaseSizeRequest(id=g6, delta=2),
                wire.NodeGroupIncreaseSizeResponse,
            )  # fmt: skip
        error: Any = messages.value
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "no capacity for aws/g6.xlarge" in error.details()
        assert size(running_servers, g6) == 0
