"""The main job on real input, shown to a person: `make demo-kubernetes`.

A stateful job over 336,776 real flights runs on Kubernetes. Its driver is killed, it is changed to a new version, and
at the end every result is compared with the truth. `story` decides what happens when; `scenario` makes it happen;
`observer` looks; `progress`, `report` and `picture` tell. Nothing here is part of the product.
"""
