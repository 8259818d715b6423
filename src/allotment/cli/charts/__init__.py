"""What is better looked at than read: plans as bars of machines, replays as curves. The one place of matplotlib."""

import logging

# It warns on standard error where its folder cannot be written to, as in a container, and while it lists the fonts.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
