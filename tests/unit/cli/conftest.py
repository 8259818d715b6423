"""Fixtures that run the command in this process, as a user would."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import allotment
from allotment.cli.main import main
from allotment.cli.plan import progress
from tests.polling import wait_until


class Ran(NamedTuple):
    """An exit code and the output."""

    code: int
    out: str
    err: str


Allot = Callable[..., Ran]


@pytest.fixture
def allot(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Allot:
    """Run ``allot`` with arguments and optional standard input; no cluster of the machine is in reach.

    The clock of `allot plan` is stopped, so that a plan depends on the steps of its search only.
    """
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(progress, "monotonic", lambda: 0.0)
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))

    def run(*words: str, stdin: str | bytes = "") -> Ran:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def lab() -> Iterator[allotment.Lab]:
    """A lab with one node of four T4, in this process; each test has its own namespace."""
    with allotment.Lab(fleet="t4-4x-pcie", speed=50) as lab:
        yield lab


@pytest.fixture
def namespace(lab: allotment.Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace with the name of the test; its objects are deleted afterwards."""
    name = request.node.name.removeprefix("test_").partition("[")[0].replace("_", "-")[:50].strip("-")
    lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    for kind in ("deployment", "pod", "resourceclaim"):
        for tree in lab.list(kind, namespace=name):
            lab.delete(kind, tree["metadata"]["name"], namespace=name)
    wait_until(
        lambda: not lab.list("pod", namespace=name) and not lab.list("resourceclaim", namespace=name),
        f"pods and claims of {name} go",
    )


@pytest.fixture
def live(allot: Allot, lab: allotment.Lab, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Allot:
    """``allot`` with the lab as the current context, in the namespace of the test unless the arguments name another."""
    monkeypatch.setenv("KUBECONFIG", str(lab.kubeconfig))

    def run(*words: str, stdin: str | bytes = "") -> Ran:
        named = {"-n", "-A", "--namespace"} & set(words)
        return allot(*words, *(() if named else ("-n", namespace)), stdin=stdin)

    return run
