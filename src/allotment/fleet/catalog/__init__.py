"""Instance types that can be bought: what each costs, has for pods, and what its driver will publish.

``catalog()`` is the packaged catalogue, ``read_catalog`` a user's; ``template_of`` is the node and the slices that a
machine of a type will bring once it runs. **A price that is not known is None, and never zero.**
"""
