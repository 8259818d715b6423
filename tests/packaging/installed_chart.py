"""A cluster in which a chart is installed: helm and kubectl with it, and its objects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.definitions import CERTIFICATES, PROMETHEUS, definitions
from tests.polling import wait_until

#: Kinds that controllers create and delete: events, and the endpoints and revisions that belong to other objects.
_MANAGED_KINDS: Final = ("events", "events.events.k8s.io")
_EACH: Final = "{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{'\\n'}{end}"
_READY_SECONDS: Final = 120


class Cluster(NamedTuple):
    """helm and kubectl with one cluster."""

    helm: str
    kubectl: str
    kubeconfig: Path
    home: Path

    def run(
        self, program: str, *arguments: str | Path, input: str = "", fails: bool = False, timeout: float = 240
    ) -> str:
        """The output of ``helm`` or ``kubectl``; the error output if it is expected to fail."""
        path = self.helm if program == "helm" else self.kubectl
        done = subprocess.run(
            [path, *map(str, arguments)], input=input, capture_output=True, text=True, check=False, timeout=timeout,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)},
        )  # fmt: skip
        text = f"{program} {' '.join(map(str, arguments))}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert (done.returncode != 0) is fails, text
        return done.stderr if fails else done.stdout

    def kinds(self) -> list[str]:
        """All kinds that can be listed."""
        found = self.run("kubectl", "api-resources", "--verbs=list", "-o", "name").split()
        return sorted(set(found) - set(_MANAGED_KINDS))

    def objects(self, kinds: Iterable[str] = ()) -> set[str]:
        """All objects of these kinds, or of all: ``Pod default/web``."""
        output = self.run("kubectl", "get", ",".join(kinds or self.kinds()), "-A", "-o", f"jsonpath={_EACH}")
        return set(output.split("\n")) - {""}

    def wait_until_only(self, before: set[str]) -> None:
        """Wait until all objects are deleted that did not exist before.

        To list all kinds takes a second of processor time, so only those are listed again of which some were left.
        """
        while left := self.objects() - before:
            kinds = tuple(sorted({name.partition(" ")[0] for name in left}))
            self._wait_until_deleted(kinds, before)

    def _wait_until_deleted(self, kinds: Sequence[str], before: set[str]) -> None:
        wait_until(
            lambda: self.objects(kinds) <= before, lambda: f"not deleted: {sorted(self.objects(kinds) - before)}"
        )

    def token(self, account: str, namespace: str, *arguments: str) -> str:
        """A token of a service account."""
        return self.run("kubectl", "-n", namespace, "create", "token", account, *arguments).strip()


def install_kinds(cluster: Cluster) -> None:
    """Install the third-party kinds of the chart's objects: the Prometheus operator's and cert-manager's."""
    for module in (PROMETHEUS, CERTIFICATES):
        # Some are larger than the limit of kubectl's last-applied annotation.
        text = "\n---\n".join(map(json.dumps, definitions(module).values()))
        cluster.run("kubectl", "create", "-f", "-", input=text)
    cluster.run("kubectl", "wait", "--for=condition=Established", "crd", "--all", "--timeout=200s")


@contextmanager
def lab(folder: Path, *arguments: str) -> Iterator[Path]:
    """``allot up`` with these arguments, stopped at the end; yields its kubeconfig."""
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    command = [
        sys.executable, "-m", "allotment.cli.main", "up", "--ephemeral", "--name", f"chart-{os.getpid()}",
        "--port", "0", "--kubeconfig", str(kubeconfig), *arguments,
    ]  # fmt: skip
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_DATA_HOME": str(folder / "data")}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        wait_until(
            lambda: process.poll() is not None or (kubeconfig.is_file() and "allotment" in kubeconfig.read_text()),
            "the lab did not start", _READY_SECONDS,
        )  # fmt: skip
        assert process.poll() is None, log.read_text(errors="replace")
        yield kubeconfig
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
