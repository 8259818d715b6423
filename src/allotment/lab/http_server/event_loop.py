"""The event loop that everything in the process shares: uvloop where it is installed, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio

try:
    import uvloop
except ImportError:  # Windows has none
    new_event_loop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop
