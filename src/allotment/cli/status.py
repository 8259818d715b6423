"""``allot status``: lists the running labs."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime

from allotment.apiserver.reads.columns import age
from allotment.cli.output.console import open_screen
from allotment.lab.state import Register
from allotment.reference.installation import labs


def run(arguments: Namespace) -> int:
    """Print one line for each lab; exit code 1 if there is none."""
    screen = open_screen()
    if arguments.output in ("json", "yaml"):
        data = labs()
        screen.data({"labs": data}, arguments.output)
        return 0 if data else 1
    running = Register().running()
    if not running:
        screen.line("No lab is running.")
        return 1
    now = datetime.now(UTC).isoformat()
    headers = ["NAME", "URL", "CONTEXT", "AGE", "FLEET"]
    rows = [[lab.name, lab.url, lab.context, age(lab.started, now), ",".join(lab.fleet)] for lab in running]
    if arguments.output == "wide":
        headers += ["PID", "DATA", "KUBECONFIG", "SPEED", "LOG", "PAGE"]
        for row, lab in zip(rows, running, strict=True):
            row += [str(lab.pid), lab.data or "", lab.kubeconfig, f"{lab.speed:g}", lab.log or "", lab.web or ""]
    screen.table(headers, rows, cut=("FLEET", "DATA"))
    return 0
