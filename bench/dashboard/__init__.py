"""The chart's Grafana dashboard as a picture: a real Prometheus, a real cluster, and each panel from its own queries.

`make dashboard-picture` is the command, `__main__` its page. `story` plays what happens on the cluster, `monitors` turns the
chart's monitors and rules into the configuration of Prometheus, `panels` fills in the dashboard's queries as Grafana does,
`answers` reads what Prometheus says, and `drawing` draws it. Grafana has no part in it.
"""
