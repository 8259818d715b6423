"""Errors at the start of a lab: user errors and others."""

from __future__ import annotations

import errno

import pytest

from allotment.cli.output.errors import Mistake
from allotment.cli.up import mistakes


def test_closed_output_is_not_a_mistake() -> None:
    with pytest.raises(BrokenPipeError), mistakes("default"):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_port_in_use_has_hint() -> None:
    with pytest.raises(Mistake, match="Address already in use") as caught, mistakes("default"):
        raise OSError(errno.EADDRINUSE, "Address already in use")
    assert "--port" in caught.value.hint
