"""The arguments of ``allot completion``."""

from __future__ import annotations

from typing import Final

from allotment.cli.arguments.shared_options import Commands, lazy

_COMPLETION: Final = """\
A script with which a shell completes commands, options, files and names of a
cluster's objects.

  source <(allot completion bash)      in ~/.bashrc
  source <(allot completion zsh)       in ~/.zshrc, behind compinit
  allot completion fish | source       in ~/.config/fish/config.fish

kubectl allot is completed by kubectl's own script: kubectl completion --help.
"""


def add_completion(commands: Commands) -> None:
    """``completion``."""
    parser = commands.add_parser("completion", help="completion for bash, zsh and fish", description=_COMPLETION)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=lazy("completion.scripts"))
