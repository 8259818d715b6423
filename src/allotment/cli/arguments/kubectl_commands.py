"""The arguments of the kubectl-compatible commands: apply, get, describe, delete, logs, wait; and snapshot."""

from __future__ import annotations

import argparse

from allotment.cli.arguments.shared_options import Commands, add_connection, lazy

#: kubectl's exit code for all errors.
EXIT_FAILED = 1


def add_commands(commands: Commands) -> None:
    """Add all commands."""
    _add_apply(commands)
    _add_get(commands)
    _add_describe(commands)
    _add_delete(commands)
    _add_logs(commands)
    _add_wait(commands)
    _add_snapshot(commands)


def _parser(commands: Commands, name: str, summary: str, module: str = "") -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary)
    parser.set_defaults(run=lazy(module or name), like_kubectl=True)
    add_connection(parser)
    parser.add_argument("-n", "--namespace", metavar="NAME", help="namespace (default: the context's)")
    return parser


def _add_switch(parser: argparse.ArgumentParser, *names: str, default: bool, text: str) -> None:
    """Add a boolean option that accepts ``--wait``, ``--wait=true`` and ``--wait=false``, as kubectl's."""
    dest = names[-1].removeprefix("--").replace("-", "_")
    hidden = argparse.SUPPRESS
    for on in (names, (f"{names[-1]}=true",)):
        shown = text if on is names and not default else hidden
        parser.add_argument(*on, dest=dest, action="store_true", default=default, help=shown)
    off = f"{names[-1]}=false"
    parser.add_argument(off, dest=dest, action="store_false", default=default, help=text if default else hidden)


def _add_files(parser: argparse.ArgumentParser, text: str, required: bool) -> None:
    parser.add_argument(
        "-f", "--filename", action="append", nargs="+", default=[], metavar="FILE", dest="files", required=required,
        help=text,
    )  # fmt: skip


def _add_selector(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-l", "--selector", metavar="LABELS", help="only objects whose labels match: app=web,tier!=db")


def _add_apply(commands: Commands) -> None:
    apply = _parser(commands, "apply", "create or update objects from manifests (server-side apply)")
    _add_files(apply, "files, directories, or - for standard input", required=True)
    apply.add_argument(
        "--dry-run",
        choices=("none", "server"),
        default="none",
        help="server: validate without storing (default: %(default)s)",
    )
    text = "take over fields that other managers own"
    _add_switch(apply, "--force-conflicts", default=False, text=text)
    apply.add_argument(
        "--server-side", action="store_true", help=argparse.SUPPRESS
    )  # always on; accepted for kubectl users


def _add_get(commands: Commands) -> None:
    get = _parser(commands, "get", "list objects")
    get.add_argument("objects", nargs="*", metavar="KIND[/NAME]", help="pods, pod/a, pods,claims, or KIND NAME …")
    _add_switch(get, "-A", "--all-namespaces", default=False, text="list objects of all namespaces")
    _add_selector(get)
    get.add_argument("--field-selector", metavar="FIELDS", help="only objects whose fields match: status.phase=Pending")
    get.add_argument(
        "-o", "--output", metavar="FORMAT", help="output format: wide, yaml, json, name or jsonpath=TEMPLATE"
    )
    _add_switch(get, "-w", "--watch", default=False, text="after listing, watch for changes")
    _add_switch(get, "--show-labels", default=False, text="show labels as the last column")
    _add_switch(get, "--no-headers", default=False, text="omit the header row")
    _add_switch(get, "--ignore-not-found", default=False, text="do not treat missing objects as an error")


def _add_describe(commands: Commands) -> None:
    describe = _parser(commands, "describe", "show details and events of objects", module="describe.command")
    describe.add_argument(
        "objects", nargs="*", metavar="KIND[/NAME]", help="pod/a, or KIND NAME …, or KIND for all objects of the kind"
    )
    _add_switch(describe, "-A", "--all-namespaces", default=False, text="list objects of all namespaces")
    _add_selector(describe)


def _add_delete(commands: Commands) -> None:
    delete = _parser(commands, "delete", "delete objects")
    delete.add_argument("objects", nargs="*", metavar="KIND[/NAME]", help="pod/a, or KIND NAME …")
    _add_files(delete, "files, directories, or - for standard input that contain the objects", required=False)
    _add_selector(delete)
    _add_switch(delete, "--all", default=False, text="all objects of the kind in the namespace")
    _add_switch(delete, "--wait", default=True, text="do not wait until the objects are gone")
    _add_switch(delete, "--ignore-not-found", default=False, text="do not treat missing objects as an error")
    delete.add_argument("--timeout", metavar="DURATION", help="maximum time to wait: 30s, 5m (default: unlimited)")
    delete.add_argument("--grace-period", type=int, metavar="N", help="seconds that pods have to terminate gracefully")
    delete.add_argument(
        "--cascade", choices=("background", "foreground", "orphan"), default="background", help="how to delete"
        " dependent objects (default: %(default)s)",
    )  # fmt: skip


def _add_logs(commands: Commands) -> None:
    logs = _parser(commands, "logs", "print the logs of a container")
    logs.add_argument("pod", metavar="POD|KIND/NAME", help="pod or workload: web-0, deploy/web")
    logs.add_argument("-c", "--container", metavar="NAME", help="container (default: the first)")
    _add_switch(logs, "-f", "--follow", default=False, text="stream new log lines")
    _add_switch(
        logs, "-p", "--previous", default=False, text="print the logs of the previous instance of the container"
    )
    _add_switch(logs, "--timestamps", default=False, text="include the timestamp of each line")
    logs.add_argument("--tail", type=int, metavar="N", help="number of recent lines to print (default: all)")


def _add_wait(commands: Commands) -> None:
    wait = _parser(commands, "wait", "wait until objects meet a condition")
    wait.add_argument("objects", nargs="*", metavar="KIND/NAME", help="pod/a, or KIND NAME …, or KIND with --all or -l")
    wait.add_argument(
        "--for", dest="condition", required=True, metavar="CONDITION",
        help="condition=Ready, jsonpath='{.status.phase}'=Running, create, delete",
    )  # fmt: skip
    wait.add_argument(
        "--timeout",
        default="30s",
        metavar="DURATION",
        help="maximum time to wait: 30s, 5m; 0: check once (default: %(default)s)",
    )
    _add_selector(wait)
    _add_switch(wait, "--all", default=False, text="all objects of the kind in the namespace")


def _add_snapshot(commands: Commands) -> None:
    summary = "save a snapshot of the objects that explain, free and doctor need"
    snapshot = commands.add_parser("snapshot", help=summary)
    snapshot.set_defaults(run=lazy("snapshot"))
    add_connection(snapshot)
    snapshot.add_argument(
        "-n", "--namespace", metavar="NAME", help="save only the pods and claims of this namespace (default: all)"
    )
    snapshot.add_argument(
        "--redact", action="store_true", help="replace names, label values, images and the like with pseudonyms"
    )
    snapshot.add_argument(
        "-o",
        "--output-file",
        dest="file",
        metavar="FILE",
        help="output file: .yaml or .json (default: standard output)",
    )
