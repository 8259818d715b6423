"""``allot demo``: runs the packaged examples in a lab, or explains them without one."""

from __future__ import annotations

from argparse import Namespace

from allotment.errors import InputError
from allotment.extras import MissingExtraError, require


def run(arguments: Namespace) -> int:
    """Show the examples; return 0 if all have the expected result."""
    if arguments.example == ["sharing"]:
        require("running a lab", "lab")
        from allotment.cli.demo.sharing import run as share

        return share(arguments)
    if arguments.pictures:
        raise InputError("--pictures: requires allot demo sharing", "only this demo creates images")
    from allotment.cli.demo.offline import run as explain

    if arguments.example or arguments.offline:
        if arguments.web:
            raise InputError("--web: requires a lab", "omit the examples and --offline")
        return explain(arguments)
    if arguments.web:
        require("allot demo --web", "lab", "web")
    try:
        require("running a lab", "lab")
    except MissingExtraError as error:
        from allotment.cli.output.console import open_screen

        screen = open_screen()
        screen.line(f"Explained without a lab: {error}")
        screen.line()
        return explain(arguments)
    from allotment.cli.demo.live import run as live

    return live(web=arguments.web)
