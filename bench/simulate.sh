#!/usr/bin/env bash
# simulate.sh - the tables of docs/scheduling-results.md: every workload of the public traces with the policies that are
# compared, and the ratios to the published results.
#
#     BERTH_TRACES=DIR bench/simulate.sh [BERTH]
#
# DIR has the folders pollux64, shockwave, philly-vc, openb and gavel-colocation. BERTH is the program (build/src/cli/berth).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
berth=${1:-build/src/cli/berth}
traces=${BERTH_TRACES:?names the folder with the public traces}

/usr/bin/python3 - "$berth" "$traces" <<'END'
import csv, json, subprocess, sys

berth, traces = sys.argv[1:]


def simulate(*args):
    out = subprocess.run([berth, "simulate", *args, "-o", "json"], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def pollux(batch, other):
    """Mean ratios over w1..w6 to the authors' results, and their ranges."""
    rows = [r for r in csv.DictReader(open(f"{traces}/pollux64/reference.csv")) if r["source"] == "authors_raw"]
    known = {r["workload"]: r for r in rows if r["policy"] == other and r["load"] == "1.0"}
    results = simulate("--trace", f"{traces}/pollux64", "--workload", "w1,w2,w3,w4,w5,w6", "--batch", batch, "--policy", "berth")
    line = f"pollux64 w1-w6, {batch} batch, against {other}:"
    for field in ("avg_jct_s", "p99_jct_s", "makespan_s"):
        ratios = [r[field] / float(known[r["trace"].split("/")[1]][field]) for r in results]
        line += f" {field} {mean(ratios):.3f} ({min(ratios):.2f}..{max(ratios):.2f})"
    print(line + f" restarts {mean(r['restarts_per_job'] for r in results):.1f}")


def shockwave(workload, seeds):
    results = [
        simulate("--trace", f"{traces}/shockwave", "--workload", workload, "--policy", "berth", "--noise", "size=0.3,speed=0.1", "--seed", str(s))[0]
        for s in seeds
    ]
    line = f"shockwave {workload}, noise size 0.3 speed 0.1, mean of seeds {seeds[0]}..{seeds[-1]}:"
    for field, digits in (("avg_jct_s", 0), ("p99_jct_s", 0), ("makespan_s", 0), ("worst_ftf", 2), ("unfair_pct", 1)):
        line += f" {field} {mean(r[field] for r in results):.{digits}f}"
    print(line)


def plain(title, *args):
    for r in simulate(*args):
        print(f"{title}, {r['policy']}: avg {r['avg_jct_s']:.2f} p99 {r['p99_jct_s']:.1f} makespan {r['makespan_s']:.0f} "
              f"worst FTF {r['worst_ftf']:.2f} unfair {r['unfair_pct']:.1f}% restarts {r['restarts_per_job']:.2f} allocated {r['gpu_alloc_pct']:.2f}%")


def fair(title, runs):
    """How `fair` compares with `berth`: ratios of the averages, and whether anybody waited for a first GPU behind a later one."""
    ratios, late, worst = [], 0, []
    for args in runs:
        by_trace = {}
        for r in simulate(*args, "--policy", "fair,berth"):
            by_trace.setdefault(r["trace"], {})[r["policy"]] = r
        for one in by_trace.values():
            ratios.append(one["fair"]["avg_jct_s"] / one["berth"]["avg_jct_s"])
            worst.append(one["fair"]["makespan_s"] / one["berth"]["makespan_s"])
            late += one["fair"].get("promise_broken_jobs") or 0
    print(f"fair / berth, {title}: average {mean(ratios):.3f} ({min(ratios):.2f}..{max(ratios):.2f}), makespan {mean(worst):.3f}, "
          f"jobs that waited too long for a first GPU {late:.0f}")


plain("pollux64 w6", "--trace", f"{traces}/pollux64", "--workload", "w6", "--policy", "las")
pollux("adaptive", "pollux")
pollux("fixed", "tiresias")
for batch in ("fixed", "adaptive"):
    fair(f"pollux64 w1-w6, {batch} batch", [("--trace", f"{traces}/pollux64", "--workload", "w1,w2,w3,w4,w5,w6", "--batch", batch)])
for lab in ("gpus=8,users=10", "gpus=16,users=12", "gpus=32,users=20", "gpus=64,users=50"):
    fair(f"lab:{lab}, seeds 1..6", [("--generate", f"lab:{lab}", "--seed", str(seed)) for seed in range(1, 7)])
fair("philly-vc, the virtual cluster is the user", [("--trace", f"{traces}/philly-vc")])
plain("shockwave 120", "--trace", f"{traces}/shockwave", "--policy", "fifo,srtf,las,berth")
shockwave("120", range(1, 7))
shockwave("120", range(7, 13))  # no constant was chosen on these
shockwave("220", range(1, 4))
plain("philly-vc, free preemption", "--trace", f"{traces}/philly-vc", "--policy", "fifo,srtf,las")
plain("philly-vc, 30 s a restart", "--trace", f"{traces}/philly-vc", "--policy", "berth", "--restart", "30")
for workload in ("default", "gpushare100"):
    plain(f"openb {workload}", "--trace", f"{traces}/openb", "--workload", workload, "--policy", "bestfit,fgd,berth")
END
