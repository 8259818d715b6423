"""Event loop of the process: uvloop if it is installed, else asyncio's."""

from __future__ import annotations

import asyncio

try:
    import uvloop
except ImportError:  # not available on Windows
    new_event_loop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop
