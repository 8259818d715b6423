"""The cheapest machines that really satisfy what waits: pure functions from objects and a catalogue to a `Plan`.

``waiting`` reads what waits, ``offering`` what can be bought; ``asking`` makes a packing problem of both, whose bins
are asked through the engine; ``seating`` turns the answer into machines on which every pod has its proven place;
``reasons`` say of every type why it was not taken. ``planning`` does all of that. On plans are built ``conceding``
(what one concession would save), ``consolidating`` (what running nodes could go) and ``provisioning`` (who makes the
machines).
"""
