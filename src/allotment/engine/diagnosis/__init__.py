"""Why claims do not fit a node: the cause, the funnel, the nearest miss and a change that the engine confirms.

The face is `cluster`: kinds of nodes, one examination for each, one headline. From there down:

- `world`, `attempts`, `scene`: the question as a value, asked of the engine again and again; what is known around it.
- `view`, `holders`, `names`: what the node sees, who holds it, what is published anywhere.
- `cause`: which claim or request it is; first on the idle node, so that busy devices do not hide what is wrong.
- `request` and `funnel`: the step at which one request loses its devices. What that step means is told by `selection`
  (with `conditions` and `miswritten`), `offered` (pools, capacity, taints) or `taken` (in use, counters); what several
  requests cannot have at once by `together` and `constrained`.
- `edits` and `changes`: what could be changed, and the smallest of it that helps. `wording`: numbers and lists.
"""
