"""The contract between a kubelet and a DRA driver on its node: what is asked and answered, and the sockets it goes over."""
