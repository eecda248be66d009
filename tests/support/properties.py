"""Properties have no deadline: how long an example takes says something about the machine, not about the property."""

import hypothesis

hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("suite")
