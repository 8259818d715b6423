"""ValidatingAdmissionPolicies decide on requests as kube-apiserver does; ``tests/kube`` sends it the same ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.apiserver.admission.expressions import Compiler, Expression
from allotment.cluster.resources import PODS as PODS_RESOURCE
from allotment.model.trees import Tree
from allotment.permissions.admission_policy import own_node_policy
from allotment.permissions.components import COMPONENTS
from tests.admission_policies import BINDINGS, CASES, POLICIES, Case, rule, shows
from tests.unit.apiserver.served import MAPS, PODS, DecodedResponse, Served

DENY_ALL: Tree = {**rule("configmaps"), "validations": [{"expression": "false", "message": "closed"}]}
CLOSED = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: closed"


async def bind(served: Served, spec: Tree, *actions: str, name: str = "p") -> None:
    """Create a policy and bind it to all namespaces."""
    binding = {"policyName": name, "validationActions": actions or ["Deny"]}
    for path, written in ((POLICIES, spec), (BINDINGS, binding)):
        response = await served.post(path, {"metadata": {"name": name}, "spec": written})
        assert response.code == 201, response


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_policy_decides_on_a_request(case: Case) -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post("/api/v1/namespaces", {"metadata": {"name": case.name}})
        for path, body in case.existing:
            assert (await served.post(path.format(case.name), body)).code == 201
        for tree in case.resources:
            path = POLICIES if tree["kind"] == "ValidatingAdmissionPolicy" else BINDINGS
            response = await served.post(path, tree)
            assert response.code == 201, response
        media = "application/merge-patch+json" if case.method == "PATCH" else "application/json"
        response = await served.request(case.method, case.path.format(case.name), case.body, media if case.body else "")
        assert_answer(case, response.code, response.body)

    asyncio.run(scenario())


def assert_answer(case: Case, code: int, body: Tree) -> None:
    if not case.message:
        assert code in (200, 201), body
        return
    assert (code, body["message"].endswith(case.message) or body["message"]) == (case.code, True)


def test_conditions_cannot_read_the_namespace_and_validations_can() -> None:
    condition = {"name": "without-namespace", "expression": "namespaceObject == null"}
    validation = {"expression": "namespaceObject == null", "message": "closed"}

    async def scenario() -> None:
        served = await Served().started()
        await bind(served, {**DENY_ALL, "matchConditions": [condition], "validations": [validation]})
        assert (await served.post(MAPS, {"metadata": {"name": "a"}})).message == CLOSED

    asyncio.run(scenario())


def test_a_denial_has_the_reason_and_a_cause() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await bind(served, DENY_ALL)
        response = await served.post(MAPS, {"metadata": {"name": "a"}})
        assert (response.code, response.message) == (422, CLOSED)
        cause = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: closed"
        assert response.body["reason"] == "Invalid"
        assert response.body["details"] == {"name": "a", "kind": "configmaps", "causes": [{"message": cause}]}

    asyncio.run(scenario())


def test_the_action_warn_adds_a_warning_to_writes_and_deletions() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await bind(served, DENY_ALL, "Warn")
        warning = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': closed\""
        assert (await served.post(MAPS, {"metadata": {"name": "a"}})).warnings == [warning]
        assert (await served.patch(f"{MAPS}/a", {"data": {"x": "1"}})).warnings == [warning]
        response: DecodedResponse = await served.request("DELETE", f"{MAPS}/a")
        assert (response.code, response.warnings) == (200, [warning])
        assert (await served.post(MAPS, {"metadata": {"name": "a"}})).code == 201
        assert (await served.request("DELETE", MAPS)).warnings == [warning]

    asyncio.run(scenario())


def test_a_policy_applies_until_it_or_its_binding_is_deleted() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await bind(served, DENY_ALL)
        assert (await served.post(MAPS, {"metadata": {"name": "a"}})).code == 422
        assert (await served.request("DELETE", f"{BINDINGS}/p")).code == 200
        assert (await served.post(MAPS, {"metadata": {"name": "a"}})).code == 201

    asyncio.run(scenario())


def test_no_policy_applies_to_policies_and_reviews() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await bind(served, {**rule("*", group="*"), "validations": [{"expression": "false"}]})
        assert (await served.request("DELETE", f"{POLICIES}/p")).code == 200
        review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
        assert (await served.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)).code == 201

    asyncio.run(scenario())


def test_policies_apply_to_programs_in_the_process() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await bind(served, {**rule("pods"), **shows("request.userInfo.username")})
        with pytest.raises(Exception, match="denied request: admin"):
            await served.client().create(
                PODS_RESOURCE,
                {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
                "shop",
            )

    asyncio.run(scenario())


def test_a_namespace_is_created_even_if_its_objects_are_denied() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await bind(served, {**rule("serviceaccounts"), "validations": [{"expression": "false"}]})
        assert (await served.post("/api/v1/namespaces", {"metadata": {"name": "other"}})).code == 201

    asyncio.run(scenario())


def test_a_connection_to_a_container_is_admitted() -> None:
    async def scenario() -> None:
        served = await Served().started()
        container = {"name": "main", "image": "web"}
        assert (await served.post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [container]}})).code == 201
        await bind(served, {**rule("pods/exec"), **shows("request.operation", "object.kind", "object.command[0]")})
        response = await served.get(f"{PODS}/a/exec?command=ls&stdout=1")
        assert (response.code, response.message.rpartition(": ")[2]) == (422, "CONNECT PodExecOptions ls")

    asyncio.run(scenario())


def test_an_eviction_is_admitted_once() -> None:
    async def scenario() -> None:
        served = await Served().started()
        container = {"name": "main", "image": "web"}
        assert (await served.post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [container]}})).code == 201
        await bind(served, {**rule("pods"), **shows("request.operation")})
        await bind(served, {**rule("pods/eviction"), **shows("string(object.kind)")}, "Warn", name="q")
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
        response = await served.post(f"{PODS}/a/eviction", eviction)
        warning = "299 - \"Validation failed for ValidatingAdmissionPolicy 'q' with binding 'q': Eviction\""
        assert (response.code, response.warnings) == (201, [warning])

    asyncio.run(scenario())


def test_a_driver_writes_only_slices_of_its_own_node() -> None:
    def slice_of(node: str) -> Tree:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
        return {"metadata": {"name": node}, "spec": spec}

    async def scenario() -> None:
        served = await Served().started()
        policy, binding = own_node_policy(COMPONENTS["driver"], account="driver", namespace="shop")
        assert (await served.post(POLICIES, policy)).code == (await served.post(BINDINGS, binding)).code == 201
        sender = {
            "impersonate_user": "system:serviceaccount:shop:driver", "impersonate_group": "system:masters",
            "impersonate_extra_authentication.kubernetes.io%2fnode_name": "own",
        }  # fmt: skip
        slices = "/apis/resource.k8s.io/v1/resourceslices"
        assert (await served.post(slices, slice_of("own"), **sender)).code == 201
        refused = await served.post(slices, slice_of("other"), **sender)
        assert refused.message.endswith("the driver on node own may write only slices of that node, not of node other")
        assert (await served.post(slices, slice_of("other"))).code == 201
        assert (await served.request("DELETE", f"{slices}/other", **sender)).code == 422

    asyncio.run(scenario())


def test_only_changed_policies_are_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_expression = Compiler.compile

    def recorded(compiler: Compiler, source: str, *more: Any, **options: Any) -> Expression:
        compiled.append(source)
        return compile_expression(compiler, source, *more, **options)

    async def scenario() -> None:
        served = await Served().started()
        await bind(served, {**rule("configmaps"), "validations": [{"expression": "1 == 1"}]}, name="a")
        await bind(served, {**rule("configmaps"), "validations": [{"expression": "2 == 2"}]}, name="b")
        assert (await served.post(MAPS, {"metadata": {"name": "a"}})).code == 201
        monkeypatch.setattr(Compiler, "compile", recorded)
        change = {"spec": {"validations": [{"expression": "3 == 4"}]}}
        assert (await served.patch(f"{POLICIES}/b", change)).code == 200
        assert (await served.post(MAPS, {"metadata": {"name": "b"}})).code == 422
        assert (await served.patch(f"{BINDINGS}/b", {"spec": {"validationActions": ["Audit"]}})).code == 200
        assert (await served.post(MAPS, {"metadata": {"name": "b"}})).code == 201
        # Once to validate it, once to evaluate it.
        assert compiled == ["3 == 4", "3 == 4"]

    asyncio.run(scenario())
