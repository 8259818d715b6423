"""The errors of arguments: not one of several words, or not a cluster."""

from __future__ import annotations

from typing import get_args

from allotment.errors import InputError


def require_choice(argument: str, value: str, choices: object) -> None:
    """Raise InputError unless the value of an argument is one of a Literal type."""
    known = get_args(choices)
    if value not in known:
        raise InputError(f"expected one of {', '.join(filter(None, known))}, found {value!r}", argument=argument)


def not_a_cluster(found: object) -> InputError:
    """Return the error for another value of the argument ``cluster``."""
    return InputError(
        f"expected a Cluster, found {type(found).__name__}",
        "use Cluster.fleet(…), Cluster.snapshot(…) or Cluster.lab(…)",
        argument="cluster",
    )
