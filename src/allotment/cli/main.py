"""The command ``allot``: parses the arguments, runs one command, and reports errors.

Only argparse is imported before the command is known, so that ``allot --help`` starts quickly. Exit codes: 0 success or
everything fits, 1 something does not fit, 2 invalid input, 3 internal error.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Final

from allotment.cli import kubectl_plugin
from allotment.cli.arguments.autoscale import add_autoscale
from allotment.cli.arguments.catalog import add_catalog
from allotment.cli.arguments.check import add_check
from allotment.cli.arguments.claim import add_claim
from allotment.cli.arguments.cluster_autoscaler import add_cluster_autoscaler
from allotment.cli.arguments.completion import add_completion
from allotment.cli.arguments.doctor import add_doctor
from allotment.cli.arguments.driver import add_driver
from allotment.cli.arguments.envtest import add_envtest
from allotment.cli.arguments.examples import add_examples
from allotment.cli.arguments.explain import add_explain
from allotment.cli.arguments.fleet import add_fleet
from allotment.cli.arguments.kubectl_commands import EXIT_FAILED, add_commands
from allotment.cli.arguments.lab import add_lab
from allotment.cli.arguments.mcp import add_mcp
from allotment.cli.arguments.metrics import add_metrics
from allotment.cli.arguments.migrate import add_migrate
from allotment.cli.arguments.plan import add_plan
from allotment.cli.arguments.rbac import add_rbac
from allotment.cli.arguments.replay import add_replay
from allotment.cli.arguments.run import add_run
from allotment.cli.arguments.shared_options import Commands, Run, add_output, lazy
from allotment.cli.arguments.tutorial import add_tutorial
from allotment.cli.arguments.vocabulary import add_vocabulary
from allotment.cli.arguments.web import add_web
from allotment.cli.parser import EXIT_BAD_INPUT, Parser
from allotment.cli.stdout import reserve_stdout

EXIT_INTERNAL_ERROR = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
#: Called by completion scripts; not shown in help.
COMPLETE = "__complete"
#: Called by the programs that ``allot envtest`` creates; not shown in help.
ENVTEST_PROGRAM = "__envtest"

#: Errors of a disk that is full or has failed.
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def _add_version(commands: Commands) -> None:
    version = commands.add_parser("version", help="print the version and the supported Kubernetes releases")
    add_output(version, ("json", "yaml"))
    version.set_defaults(run=lazy("version"))


#: The function that adds each command, in the order of completion and of error messages.
_COMMANDS: Final = {
    "explain": add_explain, "free": add_explain,
    "web": add_web, "top": add_web,
    "mcp": add_mcp,
    "doctor": add_doctor,
    "metrics": add_metrics,
    "check": add_check, "rule": add_check,
    "claim": add_claim,
    "migrate": add_migrate,
    "vocabulary": add_vocabulary, "schema": add_vocabulary,
    "fleet": add_fleet,
    "catalog": add_catalog,
    "plan": add_plan,
    "replay": add_replay,
    "up": add_lab, "down": add_lab, "status": add_lab, "lab": add_lab,
    "envtest": add_envtest,
    "apply": add_commands, "get": add_commands, "describe": add_commands, "delete": add_commands,
    "logs": add_commands, "wait": add_commands, "snapshot": add_commands,
    "driver": add_driver,
    "autoscale": add_autoscale,
    "cluster-autoscaler": add_cluster_autoscaler,
    "run": add_run,
    "rbac": add_rbac,
    "examples": add_examples, "demo": add_examples,
    "tutorial": add_tutorial,
    "completion": add_completion,
    "version": _add_version,
}  # fmt: skip


class _RootParser(Parser):
    """The parser of ``allot`` itself, with its own help; those of the commands have argparse's."""

    def format_help(self) -> str:
        """Return what people want to do, and all commands."""
        from allotment.cli.overview import overview

        return overview()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of this process, and return its exit code."""
    if arguments is None:
        reserve_stdout()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a character outside the encoding becomes "?"
            stream.reconfigure(errors="replace")
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == [COMPLETE]:
        return complete(words[1:])
    if words[:1] == [ENVTEST_PROGRAM]:
        from allotment.cli.envtest import run_program

        return run_program(words[1:])
    if not words:
        from allotment.cli.overview import first_steps

        sys.stdout.write(first_steps())
        return 0
    parsed = _parsed(words)
    parsed.words = words
    run: Run | None = getattr(parsed, "run", None)
    if run is None:
        parsed.help_of.print_help()
        return EXIT_BAD_INPUT if parsed.incomplete else 0
    try:
        code = run(parsed)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe; otherwise Python reports it again when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            return _report(error, parsed)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"allot: error: cannot write the output: {(error.strerror or str(error)).lower()}\n")
        return EXIT_BAD_INPUT
    except Exception as error:  # noqa: BLE001 - users must not see a bare traceback
        return _report(error, parsed)


def complete(words: Sequence[str] | None = None) -> int:
    """Print completion candidates for a command line, for a shell or kubectl."""
    from allotment.cli.completion.completer import run

    if words is None:
        reserve_stdout()
        words = sys.argv[1:]
    run(command_line(words[0] if len(words) > 1 else ""), words)
    return 0


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments; names and files may follow options: ``get pods -n shop web-0``."""
    parser = command_line(next((word for word in words if word != "--debug"), ""))
    parsed: argparse.Namespace
    parsed, rest = parser.parse_known_args(words)
    several = next((name for name in ("objects", "paths", "patterns") if hasattr(parsed, name)), "")
    if rest and several and not any(word.startswith("-") and word != "-" for word in rest):
        setattr(parsed, several, [*getattr(parsed, several), *rest])
    elif rest:
        parser.command_parser(words).unknown(rest)
    return parsed


def _report(error: Exception, parsed: argparse.Namespace) -> int:
    from allotment.cli.output.console import open_screen, width_of
    from allotment.cli.output.errors import describe
    from allotment.extras import MissingExtraError

    description = describe(error, width_of(sys.stderr))
    if description is not None:
        like_kubectl = getattr(parsed, "like_kubectl", False)
        output = getattr(parsed, "output", None)
        step = _next_step(error, parsed) if not like_kubectl else ""
        if not like_kubectl and output in ("json", "yaml"):
            open_screen().data({**description.data, **({"next": step} if step else {})}, output)
        else:
            lines = (*description.lines, *((f"next: {step}",) if step else ()))
            sys.stderr.write("".join(f"{line}\n" for line in lines))
        return EXIT_FAILED if like_kubectl and not isinstance(error, MissingExtraError) else EXIT_BAD_INPUT
    if parsed.debug:
        raise error
    sys.stderr.write(
        f"allot: internal error: {type(error).__name__}: {error}\n"
        "  this is a bug in Allotment: report it with the traceback that `allot --debug COMMAND` prints\n"
    )
    return EXIT_INTERNAL_ERROR


def _next_step(error: Exception, parsed: argparse.Namespace) -> str:
    """Return the command that helps with invalid files; empty for other errors."""
    from allotment.errors import InputError, InvalidManifests

    if not isinstance(error, InvalidManifests):
        return ""
    from allotment.cli.next_step import command_for_invalid_files

    try:
        return command_for_invalid_files(parsed, error.problems)
    except (InvalidManifests, InputError):  # files that cannot be read, or an invalid configuration of allot check
        return ""


def command_line(name: str = "") -> Parser:
    """Return the parser with all commands and options.

    With the ``name`` of a command, only that one is added, with those that share a function with it: adding all takes
    a third of the time in which ``allot`` starts.
    """
    parser = _RootParser(prog=kubectl_plugin.name())
    parser.add_argument("--debug", action="store_true", help="show the traceback of internal errors")
    parser.add_argument("--version", action="version", version=_version())
    parser.set_defaults(help_of=parser, incomplete=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    for add in (_COMMANDS[name],) if name in _COMMANDS else dict.fromkeys(_COMMANDS.values()):
        add(commands)
    parser.add_descriptions()
    return parser


def _version() -> str:
    from allotment import __version__

    return f"allot {__version__}"


if __name__ == "__main__":
    sys.exit(main())
