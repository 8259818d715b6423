"""``allot`` and kubectl print the same for the same command on the same lab."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.cli.main import main
from allotment.model.loading import load_text
from tests.clients.conftest import CommandResult, Lab, Run
from tests.clients.test_kubectl import CONFIG, DEPLOYMENT, POD, TEMPLATE

#: Ages differ between two commands.
_AGES = re.compile(r"\b(?:[0-9]+[smhd])+\b *")


@pytest.fixture(scope="module")
def allot(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """``allot(*arguments, input=, fails=)`` with the lab, in this process: starting one takes half a second of CPU."""
    environment = {"HOME": str(tmp_path_factory.mktemp("allot")), "KUBECONFIG": str(lab.kubeconfig)}

    def run(*arguments: str, input: str = "", fails: bool = False) -> CommandResult:
        streams = [io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="") for data in (input.encode(), b"", b"")]
        with pytest.MonkeyPatch.context() as patched:
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patched.setattr(sys, name, stream)
            for name, value in environment.items():
                patched.setenv(name, value)
            try:
                code = main(arguments)
            except SystemExit as end:
                code = int(str(end.code or 0))
        out, err = map(_written, streams[1:])
        if not fails:
            assert code == 0, f"{arguments}: {out}\n{err}"
        return CommandResult(code, out, err)

    return run


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.fixture(scope="module")
def filled(kubectl: Run) -> Iterator[str]:
    """A namespace with a pod that has a device, a Deployment and a ConfigMap."""
    namespace = "beside-kubectl"
    kubectl("create", "namespace", namespace)
    kubectl("-n", namespace, "apply", "--server-side", "-f", "-", input="---".join((TEMPLATE, POD, DEPLOYMENT, CONFIG)))
    kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/train", "--timeout=200s")
    kubectl("-n", namespace, "wait", "--for=condition=Available", "deploy/web", "--timeout=200s")
    yield namespace
    kubectl("delete", "namespace", namespace, "--wait=false")


def is_same(first: str, second: str) -> bool:
    """Whether two outputs are equal except for ages, or two YAML texts except for quotes."""
    if first.startswith("apiVersion: "):
        return load_text(first).documents[0].tree == load_text(second).documents[0].tree
    return _AGES.sub("", first) == _AGES.sub("", second)


@pytest.mark.parametrize(
    "words",
    [
        "get pods", "get pods -o wide", "get pod train", "get pods,deploy,cm", "get pod/train deploy/web", "get all",
        "get resourceclaims -o wide", "get pods --show-labels", "get deploy web --no-headers", "get pods -l app=web",
        "get nodes", "get deviceclasses", "get resourceslices -o wide", "get pods -o name", "get all -o name",
        "get pod train -o jsonpath={.spec.containers[*].image}", "get pod train -o json", "get cm settings -o json",
        "get resourceclaimtemplate one-gpu -o yaml", "get cm settings -o yaml", "get deploy web -o yaml",
        "get pods -o 'jsonpath={range .items[*]}{.metadata.name}{end}'", "logs deploy/web",
        "get pods -o 'jsonpath={range .items[*]}{$.metadata.name}{@.spec.containers[0].name .status.phase}'",
        "get deploy web -o 'jsonpath={.spec .replicas}{.metadata.annotations}{.spec.template.spec.securityContext}'",
        "wait pod train --for=condition=Ready", "wait deploy/web --for=jsonpath={.spec.replicas}=2",
    ],
)  # fmt: skip
def test_outputs_are_equal(allot: Run, kubectl: Run, filled: str, words: str) -> None:
    allot_output, kubectl_output = (run(*shlex.split(words), "-n", filled) for run in (allot, kubectl))
    assert is_same(allot_output.out, kubectl_output.out), f"{allot_output.out}\n{kubectl_output.out}"


@pytest.mark.parametrize(
    "words",
    [
        "get pod never", "get pods never1 never2", "get jobs", "get nevers", "get pods train -l a=b",
        "get persistentvolumes",
        "delete pod never", "logs never", "logs train -c never", "wait pod/train --for=condition=Never --timeout=100ms",
        "wait pod -l never=there --for=delete", "describe pod never",
    ],
)  # fmt: skip
def test_errors_and_exit_codes_are_equal(allot: Run, kubectl: Run, filled: str, words: str) -> None:
    allot_output, kubectl_output = (run(*shlex.split(words), "-n", filled, fails=True) for run in (allot, kubectl))
    assert allot_output.code == kubectl_output.code
    assert allot_output.out == kubectl_output.out
    assert allot_output.err.splitlines()[: len(kubectl_output.err.splitlines())] == kubectl_output.err.splitlines()


def test_deletions_are_reported_equally(allot: Run, kubectl: Run, filled: str) -> None:
    kubectl_output = kubectl("delete", "cm", "settings", "-n", filled).out
    allot("apply", "-n", filled, "-f", "-", input=CONFIG)
    assert allot("delete", "cm", "settings", "-n", filled).out == kubectl_output


def test_kubectl_apply_continues_after_allot_apply(allot: Run, kubectl: Run, namespace: str) -> None:
    created = allot("apply", "-n", namespace, "-f", "-", input=CONFIG).out
    assert created == kubectl("apply", "-n", f"{namespace}", "--dry-run=client", "-f", "-", input=CONFIG).out.replace(
        "configured (dry run)", "created"
    )
    assert "serverside-applied" in kubectl("apply", "-n", namespace, "--server-side", "-f", "-", input=CONFIG).out
    assert allot("apply", "-n", namespace, "-f", "-", input=CONFIG).out == "configmap/settings unchanged\n"


def test_snapshots_of_kubectl_and_of_allot_have_the_same_results(
    allot: Run, kubectl: Run, filled: str, tmp_path: Path
) -> None:
    kinds = "nodes,pods,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates"
    kubectl_output, allot_output = tmp_path / "kubectl.yaml", tmp_path / "allot.yaml"
    kubectl_output.write_text(kubectl("get", "-A", "-o", "yaml", kinds).out)
    allot("snapshot", "-o", str(allot_output))
    live = allot("free").out
    assert (
        allot("free", "--cluster", str(kubectl_output)).out == allot("free", "--cluster", str(allot_output)).out == live
    )
