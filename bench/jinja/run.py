#!/usr/bin/python3
"""Jinja2 against libjinja in one run:  run.py BENCH [--seconds 1.0] [--callgrind]

BENCH is the program jinja-bench (ninja -C build lib/jinja/jinja-bench). Prints a Markdown table: microseconds
of both and the ratio, for compile, render, JSON text to output, and compile + render. Times are the best CPU
time per call over several rounds. --callgrind adds instructions per compile and per render. Outputs must be
equal, byte for byte."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WHAT = [("compile", "compile_us"), ("render", "render_us"), ("JSON to output", "json_render_us"), ("compile + render", "cold_us")]


def python_times(seconds):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        subprocess.run([sys.executable, os.path.join(HERE, "bench_jinja2.py"), "--seconds", str(seconds), "--rounds", "5",
                        "--json", path, "--dump", folder], check=True, stdout=subprocess.DEVNULL)
        result = json.load(open(path))
        outputs = {n[:-4]: open(os.path.join(folder, n), "rb").read() for n in os.listdir(folder) if n.endswith(".out")}
    rows = {}
    for row in result["rows"]:
        if row["env"] == "plain":
            row["json_render_us"], row["cold_us"] = 1e6 / row["json_render_per_s"], 1e6 / row["cold_per_s"]
            rows[row["template"]] = row
    return result, rows, outputs


def instructions(bench, what, name):
    with tempfile.TemporaryDirectory() as folder:
        counts = []
        for mode in (what, "none"):
            p = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + folder + "/cg", bench, HERE, "once", mode, name],
                               capture_output=True, text=True, check=True)
            counts.append(int(re.search(r"Collected : (\d+)", p.stderr).group(1)))
    return (counts[0] - counts[1]) / 1000


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("bench")
    ap.add_argument("--seconds", type=float, default=1.0)
    ap.add_argument("--callgrind", action="store_true")
    a = ap.parse_args()
    versions, python, outputs = python_times(a.seconds)
    lines = subprocess.run([a.bench, HERE, str(a.seconds)], check=True, capture_output=True, text=True).stdout.splitlines()
    print("Jinja2 %s, Python %s; microseconds of CPU time per call\n" % (versions["jinja2"], versions["python"]))
    print("| template | what | Jinja2 | libjinja | ratio | per second |\n| --- | --- | --- | --- | --- | --- |")
    for line in lines:
        row = json.loads(line)
        name = row["template"]
        ours = subprocess.run([a.bench, HERE, "out", name], check=True, capture_output=True).stdout
        if ours != outputs[name]:
            sys.exit("%s: the outputs differ" % name)
        for label, key in WHAT:
            theirs = python[name][key]
            print("| %s | %s | %.1f | %.2f | %.0f | %.0f |" % (name, label, theirs, row[key], theirs / row[key], 1e6 / row[key]))
        if a.callgrind:
            print("| %s | instructions: compile, render | | %.0f, %.0f | | |" % (
                name, instructions(a.bench, "compile", name), instructions(a.bench, "render", name)))


if __name__ == "__main__":
    main()
