"""What holds for every test: plain ids, and no property that fails because the machine is busy."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from support.ids import plain_id

settings.register_profile("dpkv", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dpkv")


def pytest_make_parametrize_id(
    config: pytest.Config,  # noqa: ARG001
    val: object,
    argname: str,
) -> str | None:
    return plain_id(val, argname)
