"""Our programs as components of a cluster that is elsewhere: led by one copy, watched by probes, stopped gracefully."""
