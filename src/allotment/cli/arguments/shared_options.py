"""What several commands share: how a screen is reached, which cluster and Kubernetes are meant, forms of output."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TypeAlias

from allotment.cli.parser import Parser
from allotment.phrases import either

Run: TypeAlias = Callable[[argparse.Namespace], int]
#: Generic to the type checker only.
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

_CONTEXT = "which cluster (default: that of a lab, if there is one, else the current context)"
_FLEET = "[NAME=][GPUSx]HARDWARE[:NODES][/MODE],… (allot fleet list)"


def lazy(module: str, function: str = "run") -> Run:
    """A screen by its module in ``allotment.cli``, which is imported when it is run."""

    def run(arguments: argparse.Namespace) -> int:
        screen: Run = getattr(import_module(f"allotment.cli.{module}"), function)
        return screen(arguments)

    return run


def add_way(parser: argparse._ActionsContainer) -> None:
    """Which cluster that runs."""
    parser.add_argument("--context", metavar="NAME", help=_CONTEXT)
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubectl's configuration (default: KUBECONFIG, ~/.kube)")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """What is asked about, and the cluster or hardware that would have it."""
    parser.add_argument(
        "-f", "--filename", action="append", nargs="+", default=[], metavar="FILE", dest="files",
        help="manifests to ask about: files, folders, - for standard input",
    )  # fmt: skip
    cluster = parser.add_mutually_exclusive_group()
    cluster.add_argument(
        "--cluster", action="append", nargs="+", default=[], metavar="FILE", help="a snapshot of the cluster"
    )
    cluster.add_argument(
        "--fleet",
        action="append",
        nargs="+",
        default=[],
        metavar="SPEC",
        help=f"hardware instead of a cluster: {_FLEET}",
    )
    add_way(parser)
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="namespace of what is named, and of objects that name none"
    )
    add_release(parser)
    add_gates(parser)


def add_target(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """What manifests are checked or migrated for: a release, and a cluster or hardware to try them on."""
    meant = parser.add_argument_group("what they are meant for")
    add_release(meant)
    add_gates(meant, "--gates")
    cluster = meant.add_mutually_exclusive_group()
    cluster.add_argument("--cluster", action="append", metavar="FILE", help="try them in a snapshot of a cluster")
    cluster.add_argument("--fleet", action="append", metavar="SPEC", help=f"try them on hardware: {_FLEET}")
    add_way(meant)
    meant.add_argument("-n", "--namespace", metavar="NAME", help="namespace of objects that name none (default)")
    return meant


def add_catalog(parser: argparse._ActionsContainer, usual: str = "all that is packaged") -> None:
    """What is sold, and for how much."""
    words = f"providers (aws,gcp), or files of your own (.csv), whose rows come first (default: {usual})"
    parser.add_argument("--catalog", action="append", default=[], metavar="NAMES|FILE", help=words)


def add_release(parser: argparse._ActionsContainer, usual: str = "as it says, or 1.36") -> None:
    """Which Kubernetes a cluster is that may say so itself."""
    parser.add_argument("--kube-version", metavar="1.36", help=f"the cluster's Kubernetes (default: {usual})")


def add_release_unasked(parser: argparse._ActionsContainer) -> None:
    """Which Kubernetes is meant, where no cluster can be asked."""
    parser.add_argument("--kube-version", default="1.36", metavar="1.36", help="the cluster's Kubernetes (%(default)s)")


def add_gates(parser: argparse._ActionsContainer, *other_names: str) -> None:
    """Gates that differ from the release's."""
    parser.add_argument(
        "--feature-gates", *other_names, action="append", default=[], metavar="A=true,B=false", help="gates that differ"
    )


def add_output(parser: argparse._ActionsContainer, forms: Sequence[str]) -> None:
    """Forms of output beside the usual one."""
    parser.add_argument("-o", "--output", choices=forms, metavar="FORMAT", help=f"output as {either(forms)}")
