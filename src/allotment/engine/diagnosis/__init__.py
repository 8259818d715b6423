"""Why claims do not fit a node: the cause, the funnel, the nearest miss and a change that the engine confirms."""
