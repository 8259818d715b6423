"""``allot down``: stops one or all labs."""

from __future__ import annotations

from argparse import Namespace

from allotment.cli.output.console import from_home, open_screen
from allotment.cli.up import mistakes
from allotment.errors import InputError
from allotment.lab.state import DEFAULT_NAME, Register


def run(arguments: Namespace) -> int:
    """Stop the labs; a lab that is not running is reported, but not an error."""
    from allotment.lab.up import DidNotStop, down

    screen = open_screen()
    register = Register()
    names = [status.name for status in register.running()] if arguments.all else [arguments.name]
    with mistakes(arguments.name):
        for name in names:
            try:
                stopped = down(register, name)
            except DidNotStop as error:
                raise InputError(str(error)) from None
            if stopped is None:
                screen.line("No lab is running." if name == DEFAULT_NAME else f"Lab {name!r} is not running.")
            else:
                kept = f"; its data is kept in {from_home(stopped.data)}" if stopped.data else ""
                screen.line(f"Lab {name!r} has stopped{kept}.")
    if not names:
        screen.line("No lab is running.")
    return 0
