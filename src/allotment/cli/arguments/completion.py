"""The arguments of ``allot completion``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, lazy

_COMPLETION: Final = """\
Print a completion script for a shell. It completes commands, options, files and
the names of objects in the cluster.

  source <(allot completion bash)      in ~/.bashrc
  source <(allot completion zsh)       in ~/.zshrc, after compinit
  allot completion fish | source       in ~/.config/fish/config.fish

For kubectl allot, use kubectl's own script: see kubectl completion --help.
"""


def add_completion(commands: Commands) -> None:
    """Add ``completion``."""
    parser = commands.add_parser(
        "completion", help="print a completion script for bash, zsh or fish", description=_COMPLETION
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=lazy("completion.scripts"))
