"""Power loss: prefixes of the recorded writes of the database, at syncs and torn between them (tests/torture)."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "torture"))
import powerloss  # noqa: E402

pytestmark = pytest.mark.plain  # what a disk has does not depend on the sanitizers


@pytest.mark.parametrize("seed", [1, 2])
def test_no_acknowledged_object_is_lost_when_the_power_goes(tmp_path, seed):
    wrong, looked, _ = powerloss.run(tmp_path, seed, cuts=16, objects=120)
    assert looked == 16
    assert not wrong, "\n".join(wrong)
