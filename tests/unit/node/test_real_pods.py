"""Pods whose containers are processes of this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

from allotment.cluster.resources import CONFIG_MAPS
from allotment.node.node_config import Machine
from allotment.node.runtimes.images import Image, Images
from allotment.node.runtimes.process import ProcessRuntime
from tests.unit.node.world import NAMESPACE, World, world

SCRIPT = """
trap 'cat $CONF/bye; exit 0' TERM
echo up with $MODE
touch $SCRATCH/up
while true; do sleep 0.05; done
"""


def test_volumes_variables_probes_and_termination(tmp_path: Path) -> None:
    runtime = ProcessRuntime(Images([Image("app:1", commands="run")]), tmp_path / "run")
    machine = Machine(runtime, state=tmp_path / "node")
    main = {
        "command": ["sh", "-c", SCRIPT],
        "env": [
            {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "mode"}}},
            {"name": "CONF", "value": "/etc/app"},
            {"name": "SCRATCH", "value": "/scratch"},
        ],
        "volumeMounts": [{"name": "conf", "mountPath": "/etc/app"}, {"name": "scratch", "mountPath": "/scratch"}],
        "readinessProbe": {"exec": {"command": ["sh", "-c", "test -e $SCRATCH/up"]}, "periodSeconds": 1},
    }
    volumes = [{"name": "conf", "configMap": {"name": "conf"}}, {"name": "scratch", "emptyDir": {}}]

    async def scenario(on: World) -> None:
        data = {"mode": "quiet", "bye": "good bye\n"}
        on.client.put(CONFIG_MAPS, {"metadata": {"name": "conf", "namespace": NAMESPACE}, "data": data})
        on.pod(main=main, volumes=volumes, restartPolicy="Never")
        await on.until(lambda: on.ready() == "True")
        run = on.kubelets.find("uid-p")
        assert run is not None
        journal = run.mains[0].current_log
        on.delete(grace=10)
        await on.until(lambda: not on.exists())
        printed = [line.text.decode() for line in journal.lines()]
        assert "up with quiet" in printed
        assert printed[-1] == "good bye"
        assert not (tmp_path / "node" / "pods" / "uid-p").exists()

    async def whole() -> None:
        try:
            async with world(machine=machine, speed=10.0, real=True) as on:
                await scenario(on)
        finally:
            await runtime.close()

    asyncio.run(asyncio.wait_for(whole(), 240))


def test_probes_of_real_programs_use_real_time(tmp_path: Path) -> None:
    """A lab may run a hundred times as fast; the probed program does not."""
    runtime = ProcessRuntime(Images([Image("app:1", commands="run")]), tmp_path)
    probe = {"exec": {"command": ["sleep", "0.2"]}, "timeoutSeconds": 10}

    async def run() -> None:
        try:
            async with world(machine=Machine(runtime), speed=100.0, real=True) as on:
                on.pod(main={"command": ["sleep", "100"], "readinessProbe": probe})
                await on.until(lambda: on.ready() == "True")
        finally:
            await runtime.close()

    asyncio.run(asyncio.wait_for(run(), 240))
