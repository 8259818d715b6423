"""What a kubelet and a DRA driver on its node ask and answer, and the sockets it goes over."""
