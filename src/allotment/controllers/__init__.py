"""Controllers: each makes one kind of promise in the API come true, and can run alone."""
