"""What is better looked at than read: plans as bars of machines, replays as curves. The one place of matplotlib."""
