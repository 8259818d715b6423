"""Diagnosis of claims that do not fit: the cause, the funnel, the nearest miss and a change that the engine confirms.

The entry point is `diagnoser`: it groups equivalent nodes, diagnoses each group and selects a headline. Below it:

- `scenario`, `trial_cache`, `context`: the allocation to try as a value, the cached outcomes, and the shared data.
- `visible_devices`, `holders`, `published_names`: what the node sees, which claims hold it, which names are published.
- `cause`: the claim or request that does not fit; first on the idle node, so that busy devices do not hide errors.
- `request` and `funnel`: the step at which a request loses its devices. The step is explained by `selector_mismatch`
  (with `selector_conditions` and `expression_correction`), `node_supply` (pools, capacity, taints) or `in_use` (devices
  in use, counters); requests that do not fit together by `cause` and `unmet_constraints`.
- `candidate_changes` and `condition_repairs`: possible changes. `value_distance` and `stated_memory`: how far they are
  from the intent. `remedy_search`: the nearest ones that help. `wording`, `condition_text`: lists, conditions as text.
"""
