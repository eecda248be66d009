"""The plugin `kubectl statefulspark`: what does a person ask about a job, and what do they tell it to do?

It reads the resource, its pods and its events with the person's own rights, and changes the spec as they would by hand. The
operator is not asked: what it knows is in the status. `view` is what was read; `findings`, `losses`, `reports`, `pages`,
`requests`, `outcomes` and `driver_logs` are pure; `commands`, `connection` and `main` are the edge.
"""
