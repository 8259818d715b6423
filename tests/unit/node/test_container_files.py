"""The files of a simulated container, its volumes, and ``tar`` as ``kubectl cp`` uses it."""

from __future__ import annotations

import asyncio
import io
import tarfile

import pytest

from allotment.cluster.resources import CONFIG_MAPS, SECRETS
from allotment.node.container_files import MAX_BYTES, ContainerFiles, Directory
from allotment.node.programs.container_view import ContainerView
from allotment.node.programs.execution import execute
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.streams import Input, Streams
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.node.world import NAMESPACE, World, world


def test_reads_and_writes_fail_as_in_a_file_system() -> None:
    async def scenario() -> None:
        files = ContainerFiles({"/ro": Directory(read_only=True)})
        await files.write("/tmp/a", b"1")
        await files.write("a", b"2", "/tmp", append=True)
        assert await files.contents("../tmp/./a", "/etc") == b"12"
        await files.write("/dev/null", b"x" * 100)
        assert await files.contents("/dev/null") == b""
        for path, text in {
            "/none/a": "No such file or directory", "/tmp/a/b": "Not a directory", "/tmp": "Is a directory",
            "/ro/a": "Read-only file system",
        }.items():  # fmt: skip
            with pytest.raises(OSError, match=text):
                await files.write(path, b"")
        with pytest.raises(OSError, match="No space left on device"):
            await files.write("/tmp/large", bytes(MAX_BYTES))
        with pytest.raises(OSError, match="Directory not empty"):
            await files.remove("/tmp")
        await files.remove("/tmp", recursive=True)
        await files.make_directory("/tmp")
        await files.write("/tmp/again", bytes(MAX_BYTES - 10))

    idle.run(scenario())


def test_a_read_only_root_keeps_volumes_writable() -> None:
    async def scenario() -> None:
        files = ContainerFiles({"/data": Directory()}, read_only_root=True)
        await files.write("/data/a", b"1")
        with pytest.raises(OSError, match="Read-only file system"):
            await files.write("/tmp/a", b"1")

    idle.run(scenario())


def archive(**members: bytes) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as made:
        for name, data in members.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    return written.getvalue()


async def ran(files: ContainerFiles, *words: str, given: bytes = b"") -> tuple[int, bytes, str]:
    out, err, rest = bytearray(), bytearray(), [given]

    async def to_out(data: bytes) -> None:
        out.extend(data)

    async def to_err(data: bytes) -> None:
        err.extend(data)

    async def read() -> bytes:
        return rest.pop() if rest else b""

    process = Process(list(words), {}, Streams(Input(read), to_out, to_err), files)
    code = await execute(process, ContainerView("p", (), IdleClock(1)))
    return code, bytes(out), err.decode()


def test_files_are_copied_into_and_out_of_a_container() -> None:
    async def scenario() -> None:
        files = ContainerFiles()
        given = archive(sub__a=b"1", b=b"2")
        assert (await ran(files, "tar", "-xmf", "-", "-C", "/tmp", given=given))[0] == 0
        assert await files.contents("/tmp/sub/a") == b"1"
        code, out, err = await ran(files, "tar", "cf", "-", "/tmp")
        assert (code, err) == (0, "tar: Removing leading `/' from member names\n")
        with tarfile.open(fileobj=io.BytesIO(out)) as read:
            assert read.getnames() == ["tmp", "tmp/b", "tmp/sub", "tmp/sub/a"]
        code, _, err = await ran(files, "tar", "cf", "-", "/none")
        assert code == 2
        assert "/none: Cannot stat: No such file or directory" in err

    idle.run(scenario())


def test_an_archive_cannot_leave_the_container() -> None:
    async def scenario() -> None:
        files = ContainerFiles()
        given = archive(**{"..__..__..__evil": b"1", "__abs": b"2"})
        assert (await ran(files, "tar", "xf", "-", "-C", "/tmp", given=given))[0] == 0
        assert await files.contents("/evil") == b"1"
        assert (await ran(files, "tar", "xf", "-", given=b"no archive" * 100))[0] == 2
        assert (await ran(files, "tar", "xf", "-", "-C", "/none", given=given))[0] == 2

    idle.run(scenario())


def test_commands_read_the_volumes_of_their_pod() -> None:
    script = (
        "cat /etc/app/a /etc/secret/key /etc/pod/labels /etc/pod/cpu; echo; cat /only; echo; ls /etc/app;"
        "echo x > /etc/app/b || echo read-only; echo shared > /data/f; echo mark > /host/f"
    )

    async def scenario(on: World) -> None:
        on.client.put(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": NAMESPACE}, "data": {"a": "one"}})
        on.client.put(SECRETS, {"metadata": {"name": "s", "namespace": NAMESPACE}, "data": {"key": "dHdv"}})
        labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.name"}}
        cpu = {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}}
        volumes = [
            {"name": "c", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s"}},
            {"name": "p", "downwardAPI": {"items": [labels, cpu]}}, {"name": "d", "emptyDir": {}},
            {"name": "h", "hostPath": {"path": "/var/mark"}},
        ]  # fmt: skip
        mounts = [
            {"name": "c", "mountPath": "/etc/app"}, {"name": "s", "mountPath": "/etc/secret"},
            {"name": "p", "mountPath": "/etc/pod"}, {"name": "d", "mountPath": "/data"},
            {"name": "c", "mountPath": "/only", "subPath": "a"}, {"name": "h", "mountPath": "/host"},
        ]  # fmt: skip
        init = {"name": "init", "image": "busybox", "command": ["sh", "-c", script], "volumeMounts": mounts}
        reads = {"command": ["grep", "-q", "shared", "/data/f"], "volumeMounts": mounts}
        on.pod(main=reads, initContainers=[init], volumes=volumes, restartPolicy="Never")
        await on.until(lambda: on.phase() in ("Succeeded", "Failed"))
        run = on.kubelets.find("uid-p")
        assert run is not None
        log = [line.text.decode() for line in run.inits[0].current_log.lines()]
        assert log == ["onetwop8", "one", "a", "sh: /etc/app/b: Read-only file system", "read-only"]
        assert on.phase() == "Succeeded"
        of_node = {"name": "n", "hostPath": {"path": "/var"}}
        sees = {"command": ["cat", "/node/mark/f"], "volumeMounts": [{"name": "n", "mountPath": "/node"}]}
        on.pod("other", main=sees, volumes=[of_node], restartPolicy="Never")
        await on.until(lambda: on.phase("other") in ("Succeeded", "Failed"))
        assert on.phase("other") == "Succeeded", "the pods of a node share its files"

    async def run() -> None:
        async with world(real=True) as on:
            await scenario(on)

    idle.run(asyncio.wait_for(run(), 20))
