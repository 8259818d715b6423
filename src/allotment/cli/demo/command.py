"""``allot demo``: the packaged examples in a lab; or, without starting anything, explained."""

from __future__ import annotations

from argparse import Namespace

from allotment.cli.output.errors import Mistake
from allotment.lab import optional_dependencies


def run(arguments: Namespace) -> int:
    """Show the examples; 0 when all came out as intended."""
    missing = optional_dependencies.missing()
    if arguments.example == ["sharing"]:
        if missing:
            raise Mistake(f"a lab needs {', '.join(missing)}", optional_dependencies.INSTALL)
        from allotment.cli.demo.sharing import run as share

        return share(arguments)
    if arguments.pictures:
        raise Mistake("--pictures: wanted `allot demo sharing`, found another demo", "only `sharing` draws any")
    if arguments.example or arguments.offline or missing:
        from allotment.cli.demo.offline import run as explain
        from allotment.cli.output.console import open_screen

        if missing and not (arguments.example or arguments.offline):
            screen = open_screen()
            screen.line(f"Explained only: a lab needs {', '.join(missing)} ({optional_dependencies.INSTALL}).")
            screen.line()
        return explain(arguments)
    from allotment.cli.demo.live import run as live

    return live()
