"""``allot examples``: lists and prints the packaged manifests."""

from __future__ import annotations

from argparse import Namespace

from allotment.cli.output.console import open_screen
from allotment.reference.packaged_examples import examples, find_example, packaged_examples


def run_list(arguments: Namespace) -> int:
    """Print name, expected result and title of every example."""
    screen = open_screen()
    if arguments.output:
        screen.data(examples(), arguments.output)
        return 0
    rows = [[e.name, "yes" if e.expect == "fits" else "no", e.title] for e in packaged_examples()]
    screen.table(["NAME", "FITS", "SHOWS"], rows, cut=["SHOWS"])
    screen.line()
    screen.line("allot examples print 4      prints one")
    screen.line("allot demo 4                explains it")
    screen.line('allot explain -f "$(allot examples where 4)" --fleet dgx-a100-40gb')
    return 0


def run_print(arguments: Namespace) -> int:
    """Print examples unchanged."""
    chosen = [find_example(word) for word in arguments.example]
    open_screen().out.write("---\n".join(example.text for example in chosen))
    return 0


def run_where(arguments: Namespace) -> int:
    """Print the path of an example, or of the directory of all."""
    from pathlib import PurePath

    path = (
        find_example(arguments.example).path if arguments.example else str(PurePath(packaged_examples()[0].path).parent)
    )
    open_screen().line(path)
    return 0
