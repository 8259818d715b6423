"""The cheapest machines that really satisfy what waits: pure functions from objects and a catalogue to a `Plan`.

``demand`` reads what waits, ``question`` turns it into a packing problem whose bins are templates asked through the
engine, ``planning`` answers and checks the answer pod by pod as the scheduler will, ``choices`` says of every type why
it was not taken, ``relaxing`` what one concession would save, ``consolidation`` what running nodes could go.
"""
