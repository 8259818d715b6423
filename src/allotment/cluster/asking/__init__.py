"""What a cluster is asked once: what it serves, which release and gates it has, who may do what, what it holds."""
