"""Lines of a terminal become events in their order."""

from __future__ import annotations

import os

from allotment.cli.tutorial.events import Changed, EndOfInput, Entered, EventQueue, Settled, read_lines


def test_lines_are_read_until_the_input_ends() -> None:
    events = EventQueue()
    here, there = os.pipe()
    read_lines(here, events)
    os.write(there, b"allot free\n\nallot ge")
    assert [events.next(), events.next()] == [Entered("allot free"), Entered("")]
    os.write(there, b"t pods\n")
    assert events.next() == Entered("allot get pods")
    os.close(there)
    assert events.next() == EndOfInput()
    os.close(here)


def test_nothing_within_the_timeout_is_an_event() -> None:
    assert EventQueue().next(0) == Settled()


def test_empty_lines_that_precede_the_prompt_are_discarded() -> None:
    events = EventQueue()
    for event in (Entered(""), Changed(), Entered("allot free"), Entered("")):
        events.put(event)
    events.discard_empty_lines()
    assert [events.next(0), events.next(0), events.next(0)] == [Changed(), Entered("allot free"), Settled()]
