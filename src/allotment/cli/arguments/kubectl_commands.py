"""The arguments of the commands that work on a live cluster, in kubectl's spelling."""

from __future__ import annotations

import argparse

from allotment.cli.arguments.shared_options import Commands, add_way, lazy

#: What kubectl ends with, whatever went wrong.
EXIT_FAILED = 1


def add_commands(commands: Commands) -> None:
    """All of them."""
    _add_apply(commands)
    _add_get(commands)
    _add_describe(commands)
    _add_delete(commands)
    _add_logs(commands)
    _add_wait(commands)
    _add_snapshot(commands)


def _parser(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary)
    parser.set_defaults(run=lazy(name), like_kubectl=True)
    add_way(parser)
    parser.add_argument("-n", "--namespace", metavar="NAME", help="namespace (default: the context's)")
    return parser


def _add_switch(parser: argparse.ArgumentParser, *names: str, default: bool, text: str) -> None:
    """A switch that may be written ``--wait``, ``--wait=true`` or ``--wait=false``, as kubectl's."""
    dest = names[-1].removeprefix("--").replace("-", "_")
    hidden = argparse.SUPPRESS
    for on in (names, (f"{names[-1]}=true",)):
        told = text if on is names and not default else hidden
        parser.add_argument(*on, dest=dest, action="store_true", default=default, help=told)
    off = f"{names[-1]}=false"
    parser.add_argument(off, dest=dest, action="store_false", default=default, help=text if default else hidden)


def _add_files(parser: argparse.ArgumentParser, text: str, required: bool) -> None:
    parser.add_argument(
        "-f", "--filename", action="append", nargs="+", default=[], metavar="FILE", dest="files", required=required,
        help=text,
    )  # fmt: skip


def _add_selector(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-l", "--selector", metavar="LABELS", help="only objects with these labels: app=web,tier!=db")


def _add_apply(commands: Commands) -> None:
    apply = _parser(commands, "apply", "bring objects to the state of manifests (server-side)")
    _add_files(apply, "files, folders, - for standard input", required=True)
    apply.add_argument("--dry-run", choices=("none", "server"), default="none", help="server: judge, but keep nothing")
    text = "take over fields that others manage"
    _add_switch(apply, "--force-conflicts", default=False, text=text)
    apply.add_argument("--server-side", action="store_true", help=argparse.SUPPRESS)  # always; kubectl users write it


def _add_get(commands: Commands) -> None:
    get = _parser(commands, "get", "list objects")
    get.add_argument("objects", nargs="*", metavar="KIND[/NAME]", help="pods, pod/a, pods,claims, or KIND NAME …")
    _add_switch(get, "-A", "--all-namespaces", default=False, text="of all namespaces")
    _add_selector(get)
    get.add_argument("--field-selector", metavar="FIELDS", help="only objects with these fields: status.phase=Pending")
    get.add_argument("-o", "--output", metavar="FORMAT", help="wide, yaml, json, name, jsonpath=TEMPLATE")
    _add_switch(get, "-w", "--watch", default=False, text="then show every change")
    _add_switch(get, "--show-labels", default=False, text="labels as the last column")
    _add_switch(get, "--no-headers", default=False, text="rows only")
    _add_switch(get, "--ignore-not-found", default=False, text="what is not there is no error")


def _add_describe(commands: Commands) -> None:
    describe = _parser(commands, "describe", "objects in detail, with what happened to them")
    describe.add_argument("objects", nargs="*", metavar="KIND[/NAME]", help="pod/a, or KIND NAME …, or KIND for all")
    _add_switch(describe, "-A", "--all-namespaces", default=False, text="of all namespaces")
    _add_selector(describe)


def _add_delete(commands: Commands) -> None:
    delete = _parser(commands, "delete", "delete objects")
    delete.add_argument("objects", nargs="*", metavar="KIND[/NAME]", help="pod/a, or KIND NAME …")
    _add_files(delete, "the objects of files, folders, - for standard input", required=False)
    _add_selector(delete)
    _add_switch(delete, "--all", default=False, text="all of the kind in the namespace")
    _add_switch(delete, "--wait", default=True, text="return before they have gone (default: wait)")
    _add_switch(delete, "--ignore-not-found", default=False, text="what is not there is no error")
    delete.add_argument("--timeout", metavar="TIME", help="wait no longer: 30s, 5m (default: for ever)")
    delete.add_argument("--grace-period", type=int, metavar="N", help="seconds that pods have to end")
    delete.add_argument(
        "--cascade", choices=("background", "foreground", "orphan"), default="background", help="what becomes of owned"
        " objects (%(default)s)",
    )  # fmt: skip


def _add_logs(commands: Commands) -> None:
    logs = _parser(commands, "logs", "what a container has written")
    logs.add_argument("pod", metavar="POD|KIND/NAME", help="a pod, or a workload: deploy/web")
    logs.add_argument("-c", "--container", metavar="NAME", help="which container (default: the first)")
    _add_switch(logs, "-f", "--follow", default=False, text="go on with what it writes")
    _add_switch(logs, "-p", "--previous", default=False, text="of the container that was there before a restart")
    _add_switch(logs, "--timestamps", default=False, text="the time before each line")
    logs.add_argument("--tail", type=int, metavar="N", help="only the last lines")


def _add_wait(commands: Commands) -> None:
    wait = _parser(commands, "wait", "wait until objects are as they should be")
    wait.add_argument("objects", nargs="*", metavar="KIND/NAME", help="pod/a, or KIND NAME …, or KIND with --all or -l")
    wait.add_argument(
        "--for", dest="condition", required=True, metavar="WHAT",
        help="condition=Ready, jsonpath='{.status.phase}'=Running, create, delete",
    )  # fmt: skip
    wait.add_argument("--timeout", default="30s", metavar="TIME", help="30s, 5m; 0: only look (default: %(default)s)")
    _add_selector(wait)
    _add_switch(wait, "--all", default=False, text="all of the kind in the namespace")


def _add_snapshot(commands: Commands) -> None:
    summary = "save what explain, free and doctor need of a cluster, reading only"
    snapshot = commands.add_parser("snapshot", help=summary)
    snapshot.set_defaults(run=lazy("snapshot"))
    add_way(snapshot)
    snapshot.add_argument("-n", "--namespace", metavar="NAME", help="pods, claims … of one namespace only")
    snapshot.add_argument("--redact", action="store_true", help="names, label values, images … become pseudonyms")
    snapshot.add_argument(
        "-o", "--output-file", dest="file", metavar="FILE", help="where to: .yaml or .json (default: standard output)"
    )
