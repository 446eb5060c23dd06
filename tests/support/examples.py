"""How many examples Hypothesis tries: each profile has a number, and some tests multiply it by a factor.

The profiles, chosen by `HYPOTHESIS_PROFILE` or `--hypothesis-profile`:

    dev       20 examples (the default)
    ci        20 examples, the same in every run: .ci/run also fuzzes what they test
    thorough  2000 examples, in the nightly sessions
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def register_profiles() -> None:
    """Register the profiles with Hypothesis, and load the one that the environment names."""
    common = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("dev", common, max_examples=20)
    settings.register_profile("ci", common, max_examples=20, derandomize=True, print_blob=True)
    settings.register_profile("thorough", common, max_examples=2000)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


def seeds(count: int) -> range:
    """Return that many seeds, and ten times as many in the nightly sessions."""
    return range(count * (10 if settings.default.max_examples > 1000 else 1))


def scaled_examples(factor: float) -> settings:
    """Return settings with `factor` times the profile's number of examples: `@scaled_examples(2)` above `@given`."""
    return settings(max_examples=max(1, round(factor * settings.default.max_examples)))
