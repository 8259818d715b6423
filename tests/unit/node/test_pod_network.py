"""Commands in simulated containers reach other pods and Services of the lab."""

from __future__ import annotations

import asyncio

from allotment.cluster.resources import PODS, SERVICES
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.node.world import NAMESPACE, World, world


def service(name: str, selector: Tree, **spec: object) -> Tree:
    metadata = {"name": name, "namespace": NAMESPACE}
    ports = [{"port": 8080, "targetPort": "http", "protocol": "TCP"}]
    return {"metadata": metadata, "spec": {"clusterIP": "10.96.0.9", "ports": ports, "selector": selector, **spec}}


def ran(script: str) -> tuple[list[str], int]:
    """The output and exit code of a script in a pod, next to a ready pod ``web`` with a Service."""

    async def scenario(on: World) -> tuple[list[str], int]:
        on.client.put(SERVICES, service("web", {"app": "web"}))
        on.client.put(SERVICES, service("empty", {"app": "none"}))
        on.client.put(SERVICES, service("headless", {"app": "web"}, clusterIP="None"))
        on.pod("web", main={"image": "nginx", "ports": [{"name": "http", "containerPort": 80}]})
        tree = on.now("web")
        on.client.put(PODS, {**tree, "metadata": {**tree["metadata"], "labels": {"app": "web"}}})
        await on.until(lambda: on.ready("web") == "True")
        on.pod(main={"command": ["sh", "-c", script]}, restartPolicy="Never")
        await on.until(lambda: on.phase() in ("Succeeded", "Failed"))
        run = on.kubelets.find("uid-p")
        assert run is not None
        log = [line.text.decode() for line in run.mains[0].current_log.lines()]
        return log, on.main()["state"]["terminated"]["exitCode"]

    async def run() -> tuple[list[str], int]:
        async with world(real=True) as on:
            return await scenario(on)

    return idle.run(asyncio.wait_for(run(), 20))


def test_a_service_leads_to_its_ready_pods() -> None:
    log, code = ran(
        "until nc -z web 8080; do sleep 1; done; wget -qO- http://web:8080/ | head -n 1;"
        f"curl -s web.{NAMESPACE}.svc.cluster.local:8080/a?b=c | head -n 1; nslookup web; getent hosts web"
    )
    expected = ["pod: web", "pod: web", "Name:\tweb", "Address: 10.96.0.9", "10.96.0.9       web"]
    assert (log, code) == (expected, 0)


def test_unreachable_ports_and_unknown_names_fail() -> None:
    log, code = ran(
        "nc -z web 81; echo $?; curl -sS http://empty:8080/; echo $?; curl -s http://none/; echo $?;"
        "wget -q http://none/; echo $?; nslookup none; echo $?; curl -s https://web/"
    )
    assert code == 127, "TLS is not simulated"
    assert log == [
        "nc: connect to web port 81 (tcp) failed: Connection refused", "1",
        "curl: (7) Failed to connect to http://empty:8080/: Connection refused", "7", "6",
        "wget: bad address 'none'", "1", "** server can't find none: NXDOMAIN", "1",
        "not simulated: curl -s https://web/",
    ]  # fmt: skip


def test_a_headless_service_has_the_addresses_of_its_pods() -> None:
    log, code = ran("nslookup headless | grep -c '^Address: 10.24'; wget -qO- headless:80 | head -n 1")
    assert (log, code) == (["1", "pod: web"], 0)
