"""``allot tutorial``: starts or continues the tutorial in a folder."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from pathlib import Path

from allotment.cli.output.console import Screen, open_screen
from allotment.cli.tutorial import automatic, interactive
from allotment.cli.tutorial.events import read_lines
from allotment.cli.tutorial.folder import Folder
from allotment.cli.tutorial.lab_session import require_stopped, start
from allotment.cli.tutorial.session import Session
from allotment.cli.tutorial.step_text import WIDTH, paragraph
from allotment.cli.tutorial.steps import FLEET, STEPS
from allotment.extras import require
from allotment.shell_words import shell_line

EXIT_DONE, EXIT_NOT_DONE = 0, 1


def run(arguments: Namespace) -> int:
    """Go through the steps that are not completed; return 0 if all are completed then, else 1."""
    require("running a lab", "lab")
    screen = open_screen()
    folder = Folder(Path(arguments.dir))
    if arguments.reset and not folder.is_new:
        require_stopped()
        for kept in folder.reset():
            paragraph(screen, f"Your version of a manifest is kept: {folder.shown}/{kept}")
    if all(step.name in folder.progress.done for step in STEPS):
        _print_command(screen, f"All {len(STEPS)} steps are completed. To begin again:", f"{_again(arguments)} --reset")
        return EXIT_DONE
    # A process without standard input has no ``sys.stdin``.
    with_reader = not arguments.yes and sys.stdin is not None and sys.stdin.isatty() and screen.out.isatty()
    try:
        with start(screen, folder) as session:
            _introduce(session, with_reader)
            if with_reader:
                read_lines(sys.stdin.fileno(), session.events)
                interactive.go_through(session, STEPS)
            elif not automatic.go_through(session, STEPS):
                _print_command(screen, "To continue:", _again(arguments))
                return EXIT_NOT_DONE
    except (interactive.Quit, KeyboardInterrupt) as end:
        screen.line()
        _print_command(screen, "The steps that are done are recorded. To continue:", _again(arguments))
        if isinstance(end, KeyboardInterrupt):
            raise
        return EXIT_NOT_DONE
    _conclude(screen, folder)
    return EXIT_DONE


def _again(arguments: Namespace) -> str:
    own = () if arguments.dir == arguments.default_dir else ("--dir", arguments.dir)
    return shell_line(("allot", "tutorial", *own))


def _print_command(screen: Screen, sentence: str, command: str) -> None:
    """Print a sentence and a command. The command is never folded, so that it can be copied."""
    if len(f"{sentence} {command}") <= min(screen.width or WIDTH, WIDTH):
        screen.line(f"{sentence} {command}")
    else:
        paragraph(screen, sentence)
        screen.line(f"  {command}")


def _introduce(session: Session, with_reader: bool) -> None:
    screen, folder = session.screen, session.folder
    paragraph(
        screen,
        f"This tutorial runs in a lab: a Kubernetes control plane in this process, with {len(FLEET)} simulated nodes "
        f"and no real GPUs. Its files are in {folder.shown}.",
    )
    if with_reader:
        screen.line()
        paragraph(screen, "Enter the commands here, or in another terminal after these two:")
        path = folder.shown if shlex.quote(str(folder.path)) == str(folder.path) else shlex.quote(str(folder.path))
        screen.line(f"  cd {path}")
        screen.line("  export KUBECONFIG=$PWD/kubeconfig")
        paragraph(screen, "kubectl works there, too: kubectl get pods,resourceclaims")


def _conclude(screen: Screen, folder: Folder) -> None:
    screen.line()
    paragraph(
        screen,
        f"All {len(STEPS)} steps are done, and every check holds. The lab is stopped; the folder {folder.shown} can be "
        "deleted. To use a lab with other machines: allot up. For your own manifests: allot check and allot claim.",
    )
