"""`berth simulate` against other implementations of the same rules. Needs no daemon."""

import json
import random
import subprocess

import pytest
import tiresias
from harness import BERTH


def simulate(*args):
    done = subprocess.run([BERTH, "simulate", *args, "-o", "json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def slice_of_philly(seed, count, gap):
    """Jobs as a virtual cluster of the Philly trace has them: most are short and small, most GPU time is in few."""
    pick, at, jobs = random.Random(seed), 0, []
    for _ in range(count):
        at += int(pick.expovariate(1 / gap))
        gpus = pick.choices((1, 2, 4, 8, 16), (75, 7, 6, 10, 2))[0]
        jobs.append((at, gpus, max(int(pick.lognormvariate(6.2, 2.0)), 1)))
    return jobs


@pytest.mark.parametrize("seed,cluster,gpus,gap", [(1, "4x8", 32, 150), (2, "4x8", 32, 60), (3, "8x8", 64, 40), (4, "2x8", 16, 400)])
def test_las_equals_tiresias_on_any_slice(tmp_path, seed, cluster, gpus, gap):
    jobs = slice_of_philly(seed, 500, gap)
    lines = [f"{i},{submit},{n},{duration},vc{i % 5}" for i, (submit, n, duration) in enumerate(jobs)]
    (tmp_path / "jobs.csv").write_text("job,submit_s,gpus,duration_s,vc\n" + "\n".join(lines) + "\n")
    result = simulate("--trace", str(tmp_path), "--cluster", cluster, "--policy", "las")[0]
    times = tiresias.simulate(jobs, gpus)
    assert result["avg_jct_s"] == pytest.approx(sum(times) / len(times), rel=0.001)
