"""Speed and memory of Allotment and of upstream, on the same input in one run."""
