"""``claim``: writes claims, templates and classes for required devices, and describes them in a sentence."""
