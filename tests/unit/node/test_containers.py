"""Run time and exit codes of containers on a simulated node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cdi.spec import ContainerEdits
from allotment.node.containers import Container, ContainerExit
from allotment.node.device_view import ContainerDevice
from allotment.node.runtimes.runtime import Sandbox
from allotment.node.runtimes.simulated import EXIT_CODE, RUN_SECONDS, UNKNOWN_COMMANDS, SimulatedRuntime
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock

T4 = ContainerDevice("gpu.nvidia.com", "node-1", "gpu-0", "Tesla T4", "GPU-11", 15 * 2**30, "", "")


def container(*command: str, policy: str = "Never", key: str = "command", **more: Any) -> Container:
    spec = {"name": "main", "image": more.pop("image", "train:1"), key: list(command)}
    pod = {
        "metadata": {"name": "train", "annotations": more.pop("annotations", {})},
        "spec": {"restartPolicy": policy, "containers": [spec], **more},
    }
    clock = IdleClock(10_000)

    async def sandbox() -> Sandbox:
        return Sandbox(pod, spec, command, {}, ContainerEdits(), (T4,), "10.244.0.3")

    return Container(spec, runtime=SimulatedRuntime(clock), clock=clock, sandbox=sandbox)


def ran(container_: Container) -> tuple[ContainerExit, list[str]]:
    ended = idle.run(asyncio.wait_for(container_.run(), 5))
    return ended, [line.text.decode() for line in container_.current_log.lines(None)]


RUN = {UNKNOWN_COMMANDS: "run"}


def test_an_unknown_command_that_has_to_end_fails() -> None:
    """Its success would be invented."""
    for words in (["python", "-c", "import sys; sys.exit(2)"], ["sh", "-c", "python train.py"]):
        ended, lines = ran(container(*words))
        assert ended.code == 127
        assert lines[0] == f"not simulated: {' '.join(words).removeprefix('sh -c ')}"
    assert ran(container("test", "1", "=", "0"))[0].code == 1


def test_an_unknown_command_is_the_application_if_the_pod_says_so() -> None:
    ended, lines = ran(container("python", "train.py", annotations=RUN))
    assert ended.code == 0
    assert lines == ["simulated: train:1 runs python train.py with Tesla T4 (node-1/gpu-0)"]


def test_an_unknown_command_in_a_script_is_the_application() -> None:
    text = "nvidia-smi -L; pip install x && python train.py | grep simulated; echo $?"
    _, lines = ran(container("sh", "-c", text, annotations=RUN))
    line = "simulated: train:1 runs {} with Tesla T4 (node-1/gpu-0)"
    expected = [line.format("pip install x"), line.format("python train.py"), "0"]
    assert lines == ["GPU 0: Tesla T4 (UUID: GPU-11)", *expected]


def test_a_container_leaves_a_termination_message() -> None:
    written, _ = ran(container("sh", "-c", "printf done > /dev/termination-log; echo log; exit 1"))
    assert written.message == "done"
    failed = container("sh", "-c", "echo first; printf last; exit 1")
    failed.spec["terminationMessagePolicy"] = "FallbackToLogsOnError"
    assert ran(failed)[0].message == "first\nlast"
    assert ran(container("sh", "-c", "echo first; exit 1"))[0].message == ""


def test_the_images_entrypoint_is_the_application() -> None:
    for words in ([], ["--epochs", "3"]):
        ended, lines = ran(container(*words, key="args"))
        assert ended.code == 0
        assert lines[0].startswith("simulated: train:1 runs ")


@pytest.mark.parametrize(
    ("policy", "inits", "stays"),
    [
        ("Always", [], True),
        ("OnFailure", [], False),
        ("Always", [{"name": "main"}], False),
        ("Never", [{"name": "main", "restartPolicy": "Always"}], True),
    ],
    ids=["in a server", "in a job", "before a server", "a sidecar of a job"],
)
def test_the_application_runs_forever_unless_the_pod_completes(
    policy: str, inits: list[dict[str, str]], stays: bool
) -> None:
    container_ = container("serve", policy=policy, initContainers=inits)

    async def still_runs() -> bool:
        task = asyncio.create_task(container_.run())
        done, _ = await asyncio.wait([task], timeout=0.1)  # a thousand simulated seconds
        task.cancel()
        return not done

    assert idle.run(still_runs()) is stays


def test_annotations_set_run_time_and_exit_code() -> None:
    annotations = {RUN_SECONDS: "60", EXIT_CODE: "3"}
    ended, lines = ran(container("sh", "-c", "exit 7", policy="Always", annotations=annotations))
    assert ended.code == 3, "the command is not read"
    assert "runs sh -c exit 7" in lines[0]


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "soon"])
def test_an_invalid_run_time_is_ignored(seconds: str) -> None:
    ended, _ = ran(container("train", annotations={RUN_SECONDS: seconds, EXIT_CODE: "²"}))
    assert ended.code == 1


def test_the_test_image_of_kubernetes_does_not_serve_a_file_that_was_removed() -> None:
    """Its conformance tests break a readiness probe in this way."""

    async def scenario() -> list[bytes]:
        container_ = container("/agnhost", "test-webserver", policy="Always", image="registry.k8s.io/e2e/agnhost:2.59")
        task = asyncio.create_task(container_.run())
        await container_.up.wait()
        running = container_.now
        assert running is not None
        found: list[bytes] = []

        async def ignored(data: bytes) -> None: ...

        for command in ("true", "mv -v /localhost.crt /tmp/", "mv -v /tmp/localhost.crt /"):
            await running.exec(["sh", "-c", command], stdin=None, stdout=ignored, stderr=ignored, tty=False)
            connection = await running.connect(80)
            await connection.write(b"GET /localhost.crt HTTP/1.1\r\n\r\n")
            found.append((await connection.read()).split(b" ")[1])
        task.cancel()
        return found

    assert idle.run(scenario()) == [b"200", b"404", b"200"]
