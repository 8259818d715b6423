"""``allot driver run`` where it cannot: one line that says why, whatever it came wrapped in."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.cli.main import main
from allotment.drivers import program, vendors
from allotment.drivers.host import Held
from allotment.drivers.nvidia.host.roots import Roots
from allotment.plugin.sockets import SocketUnusable

_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
"""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SocketUnusable("/x/dra.sock is served by another process"), "/x/dra.sock is served by another process"),
        (Held("process 7 holds /x/checkpoint.json.lock"), "process 7 holds /x/checkpoint.json.lock"),
        (PermissionError(13, "Permission denied", "/x/plugins"), "/x/plugins: Permission denied"),
    ],
)
def test_what_keeps_it_from_starting_is_one_line(
    error: Exception, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        # As it comes out of two task groups.
        raise ExceptionGroup("unhandled", [ExceptionGroup("unhandled", [error])])

    (tmp_path / "config").write_text(_KUBECONFIG)
    monkeypatch.setattr(program, "run_at", fail)
    code = main(["driver", "run", "amd", "--kubeconfig", str(tmp_path / "config"), "--kubelet-root", str(tmp_path)])
    assert code == 2
    told = capsys.readouterr().err
    assert words in told
    assert "unhandled" not in told


def test_runtimes_are_told_of_the_hosts_folders_not_of_the_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Roots] = []
    monkeypatch.setattr(vendors, "HostHardware", given.append)
    vendors.ON_HOST["nvidia"].make("n", "", Path("/driver-root"), Path("/"))
    assert given[0].on_host(Path("/driver-root/usr/lib/libcuda.so.1")) == "/usr/lib/libcuda.so.1"
