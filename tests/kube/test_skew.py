"""Programs of one release on an API server of another one, as during an upgrade.

Kubernetes supports its own programs one minor release behind the server; Allotment's programs discover what a server
serves, and run on both sides with the features of either release.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterator

import pytest

from allotment.cli.main import main
from allotment.cluster.inspection.release import FeatureOverrides, features_of
from allotment.cluster.resources import CLAIMS, PODS, TAINT_RULES
from allotment.controllers.device_taints import device_taints
from allotment.controllers.resource_claims import resource_claims
from allotment.model.features import Features
from allotment.scheduler.program import SchedulerOptions, scheduler
from bench.kube_programs import FOLDER, RELEASES, missing, programs
from bench.real_kube import ApiServer, plane
from tests.kube.allotment_programs import running_programs
from tests.kube.objects import PODS as POD_PATH
from tests.kube.objects import device_class, items, node, pod, template
from tests.kube.releases import KUBE_RELEASES
from tests.polling import until, wait_until

_SECONDS = 120
_NEWER, _OLDER = RELEASES


def _paths(release: str) -> dict[str, str]:
    found = programs(release=release)
    if found is None:
        pytest.fail(f"{', '.join(missing(release=release))} of {release} not found", pytrace=False)
    return found


def _create_objects(server: ApiServer) -> None:
    node(server, "one", 2)
    device_class(server)
    template(server)


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A server of the newer release, with kube-scheduler and kube-controller-manager of the older one."""
    monkeypatch.delenv(FOLDER, raising=False)
    newer, older = _paths(_NEWER), _paths(_OLDER)
    kept = {name: older[name] for name in ("kube-scheduler", "kube-controller-manager")}
    with plane({**newer, **kept}) as server:
        _create_objects(server)
        yield server


def test_older_kubernetes_programs_and_allotment_share_the_devices_of_a_newer_server(upgraded: ApiServer) -> None:
    assert upgraded.send_request("POST", POD_PATH, pod("theirs"))[0] == 201

    def bound() -> dict[str, str]:
        return {tree["metadata"]["name"]: tree["spec"].get("nodeName", "") for tree in items(upgraded, POD_PATH)}

    wait_until(lambda: bound()["theirs"] == "one", lambda: str(upgraded.tails()))

    async def scenario() -> None:
        options = SchedulerOptions(Features(_NEWER), "allotment", settle=0.0)
        async with asyncio.timeout(_SECONDS), running_programs(upgraded, {"scheduler": scheduler(options)}) as client:
            await client.create(PODS, pod("ours", "allotment"), "default")
            await until(lambda: bound()["ours"] == "one")
            claims = (await client.list(CLAIMS, "default")).items
            devices = [claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in claims]
            assert sorted(devices) == ["gpu-0", "gpu-1"]

    asyncio.run(scenario())


def test_doctor_reports_older_kubernetes_programs(upgraded: ApiServer) -> None:
    image = f"registry.k8s.io/kube-scheduler:{RELEASES[_OLDER]}"
    containers = [{"name": "kube-scheduler", "image": image, "command": ["kube-scheduler", "--leader-elect=true"]}]
    tree = {
        "metadata": {"name": "kube-scheduler-one"},
        "spec": {"containers": containers, "nodeName": "one", "automountServiceAccountToken": False},
    }
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts/default"
    wait_until(lambda: upgraded.send_request("GET", accounts)[0] == 200)
    assert upgraded.send_request("POST", "/api/v1/namespaces/kube-system/pods", tree)[0] == 201
    rule = {
        "deviceSelector": {"driver": "gpu.example.com"},
        "taint": {"key": "example.com/repair", "effect": "NoSchedule"},
    }
    rules = f"/apis/resource.k8s.io/{KUBE_RELEASES[_NEWER].rule_version}/devicetaintrules"
    assert upgraded.send_request("POST", rules, {"metadata": {"name": "repair"}, "spec": rule})[0] == 201
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main(["doctor", "--kubeconfig", str(upgraded.kubeconfig), "--context", "real", "--select", "D106,D107"])
    text = " ".join(output.getvalue().split())
    assert f"kube-scheduler runs {RELEASES[_OLDER]} and the API server {RELEASES[_NEWER]}" in text, text
    assert "its gate DRADeviceTaintRules is off, and the cluster has DeviceTaintRules" in text, text
    assert "kube-scheduler has DRADeviceTaintRules=false" in text, text


@pytest.mark.parametrize(("server_release", "program_release"), [(_NEWER, _OLDER), (_OLDER, _NEWER)])
def test_allotments_programs_with_the_features_of_another_release(
    server_release: str, program_release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    gates, config = KUBE_RELEASES[server_release].rule_flags
    without = "*,-resourceclaim-controller,-device-taint-eviction-controller"
    with plane(
        _paths(server_release), controllers=without, scheduler=False, gates=gates, runtime_config=config
    ) as server:
        _create_objects(server)
        asyncio.run(_check_programs(server, program_release))


async def _check_programs(server: ApiServer, release: str) -> None:
    async with server.client() as admin:
        features = await features_of(admin, FeatureOverrides(release))
    assert (features.kube, features.enabled("DRADeviceTaintRules")) == (release, True)
    started = {
        "claims": resource_claims(features),
        "taints": device_taints(features),
        "scheduler": scheduler(SchedulerOptions(features, "allotment", settle=0.0)),
    }
    async with asyncio.timeout(_SECONDS), running_programs(server, started) as client:

        async def rule(name: str, device: str, effect: str) -> None:
            selector = {"driver": "gpu.example.com", "pool": "one", "device": device}
            spec = {"deviceSelector": selector, "taint": {"key": "example.com/broken", "effect": effect}}
            await client.create(TAINT_RULES, {"metadata": {"name": name}, "spec": spec})

        await rule("avoided", "gpu-0", "NoSchedule")
        await client.create(PODS, pod("first", "allotment"), "default")

        async def device() -> str:
            statuses = [claim.get("status") or {} for claim in (await client.list(CLAIMS, "default")).items]
            allocated = [status["allocation"]["devices"]["results"] for status in statuses if "allocation" in status]
            return str(allocated[0][0]["device"]) if allocated else ""

        assert await until(device) == "gpu-1", "the other one is tainted"
        await until(lambda: items(server, POD_PATH)[0]["spec"].get("nodeName"))
        await rule("evicted", "gpu-1", "NoExecute")
        await until(lambda: not items(server, POD_PATH))
