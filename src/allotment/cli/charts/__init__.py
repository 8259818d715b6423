"""Charts: plans as bars of machines, replays as curves. The only package that imports matplotlib."""

import logging

# It warns on standard error if its directory is not writable, as in a container, and while it lists fonts.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
