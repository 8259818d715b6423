"""Speed and memory, ours and upstream's on the same input in one run."""
