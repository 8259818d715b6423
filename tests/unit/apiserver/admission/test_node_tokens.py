"""A node requests tokens only with the audiences that volumes of the pod, CSI drivers or roles permit."""

from __future__ import annotations

import asyncio

from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.apiserver.served import PODS, DecodedResponse, Served, pod

TOKENS = "/api/v1/namespaces/shop/serviceaccounts/default/token"
NODE = {"impersonate-user": "system:node:n1", "impersonate-group": "system:nodes"}


async def _requested(served: Served, uid: str, *audiences: str) -> DecodedResponse:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid}
    body = {"spec": {"boundObjectRef": reference, "audiences": list(audiences)}}
    return await served.request("POST", TOKENS, body, "application/json", **NODE)


def test_audiences_of_a_node_are_limited() -> None:
    async def scenario() -> None:
        served = await Served(features=Features("1.37")).started()
        source = {"serviceAccountToken": {"path": "t", "audience": "vault"}}
        volumes = [
            {"name": "a", "projected": {"sources": [source]}}, {"name": "b", "csi": {"driver": "csi.example.com"}},
        ]  # fmt: skip
        created = await served.post(PODS, pod("web", nodeName="n1", volumes=volumes))
        uid = created.body["metadata"]["uid"]
        driver: Tree = {"metadata": {"name": "csi.example.com"}, "spec": {"tokenRequests": [{"audience": "storage"}]}}
        assert (await served.post("/apis/storage.k8s.io/v1/csidrivers", driver)).code == 201
        for audiences in ((), ("vault",), ("storage",)):
            assert (await _requested(served, uid, *audiences)).code == 201, audiences
        prefix = 'serviceaccounts "default" is forbidden: '
        refused = await _requested(served, uid, "other")
        text = f'{prefix}system:node:n1 is not authorized to request tokens for audience "other"'
        assert (refused.code, refused.message) == (403, text)
        refused = await _requested(served, uid, "vault", "storage")
        assert refused.message == f"{prefix}node may only request 0 or 1 audiences"
        rule = {"verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""], "resources": ["other"]}
        roles = "/apis/rbac.authorization.k8s.io/v1"
        await served.post(f"{roles}/clusterroles", {"metadata": {"name": "r"}, "rules": [rule]})
        subject = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
        binding = {"metadata": {"name": "r"}, "subjects": [subject], "roleRef": reference}
        await served.post(f"{roles}/clusterrolebindings", binding)
        assert (await _requested(served, uid, "other")).code == 201

    asyncio.run(scenario())


def test_a_node_creates_mirror_pods_that_it_owns() -> None:
    async def scenario() -> None:
        served = await Served().started()
        node = await served.post("/api/v1/nodes", {"metadata": {"name": "n1"}})
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "controller": True}
        annotations = {"kubernetes.io/config.mirror": "x"}
        for uid, code in (("other", 403), (node.body["metadata"]["uid"], 201)):
            mirror = pod("static", nodeName="n1")
            mirror["metadata"] |= {"annotations": annotations, "ownerReferences": [{**owner, "uid": uid}]}
            response = await served.request("POST", PODS, mirror, "application/json", **NODE)
            assert response.code == code, response.body
        mirror["spec"]["volumes"] = [{"name": "a", "secret": {"secretName": "hidden"}}]
        mirror["metadata"]["name"] = "static-2"
        response = await served.request("POST", PODS, mirror, "application/json", **NODE)
        assert response.message == 'pods "static-2" is forbidden: node "n1" can not create pods that reference secrets'

    asyncio.run(scenario())
