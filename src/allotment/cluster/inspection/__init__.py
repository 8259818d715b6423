"""What a cluster is asked once: what it serves, its release and gates, who may do what, and which objects it has."""
