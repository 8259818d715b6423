"""The parts of ``allot replay``: what is asked, runs in processes, results that are kept, and what is told of them."""
