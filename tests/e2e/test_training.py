"""Training jobs from run-scheduler to their end: the DL scheduler guide's examples in real containers on declared
GPUs, preempted in the middle by other people's first-GPU jobs, resumed from the snapshot."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

import pytest

import harness
import labkit
import podkit

pytestmark = [podkit.needs, pytest.mark.plain]

EXAMPLES = harness.ROOT / "python" / "examples"
TORCH = subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, check=False).returncode == 0
EPOCHS = 10
# example → run-scheduler options
JOBS = {
    "pytorch": ["--batch_size", "64", "--training_set_size=640"],
    "lightning": ["--batch_size=32", "--training_set_size", "320"],
    "tensorflow": ["--batch_size", "32", "--training_set_size=320"],
}
PLAIN = {"pytorch": False, "lightning": False, "tensorflow": True}  # needs no torch


class Lab:
    """A daemon with four declared GPUs, and people."""

    def __init__(self, folder):
        # Where everybody can get in: pytest's folders are root's alone.
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="berth-lab-"))
        os.chmod(self.place, 0o755)
        self.daemon = harness.Daemon(
            folder, "--agent", "on", "--gpus", "4x8000", "--min-run", "0", "--socket", self.place / "s",
            env={"BERTH_SHIM": str(podkit.SHIM), "BERTH_IMAGE_HELPER": str(podkit.HELPER)})
        self.scripts = self.place / "scripts"
        shutil.copytree(EXAMPLES, self.scripts)
        for name in ("run-scheduler", "scheduler-get-logs", "scheduler-state", "scheduler-cancel-job"):
            os.symlink(harness.BERTH, self.place / name)
        self.people = {name: labkit.Person("berth" + name) for name in ("ann", "bob", "eve", "dan")}

    def script(self, name, text):
        (self.scripts / name).write_text(text)
        return "/custom/" + name

    def say(self, who, program, *args):
        return self.people[who].run(self.daemon, str(self.place / program), *args)

    def submit(self, who, name, script, *options):
        """The job's id."""
        text = self.say(who, "run-scheduler", "--custom_dir", self.scripts, "--script_path", script,
                        "--is_single_gpu", "True", *options, name).ok()
        return re.search(r"job ID (\S+)", text).group(1)

    def job(self, uid):
        return self.daemon.get(f"/v1/queue/{uid}")

    def until(self, uid, what, condition, timeout=60):
        def look():
            job = self.job(uid)
            assert job["state"] != "Failed", json.dumps(job, indent=1) + self.logs(uid)
            return job if condition(job) else None
        try:
            return harness.wait(look, f"{uid}: {what}", timeout, 0.1)
        except AssertionError as trouble:
            raise AssertionError(f"{trouble}\n{json.dumps(self.job(uid), indent=1)}\n{self.logs(uid)}") from trouble

    def logs(self, uid):
        return self.daemon.request("GET", f"/v1/queue/{uid}/logs").body.decode()

    def close(self):
        for item in self.daemon.kubectl("get", "trainingjobs", "-A", "-o", "json").json()["items"]:
            self.daemon.kubectl("delete", "trainingjob", "-n", item["metadata"]["namespace"],
                                item["metadata"]["name"], "--wait=false")
        harness.wait(lambda: not self.daemon.kubectl("get", "pods", "-A", "-o", "name").ok().strip(),
                     "pods are gone", 60)
        podkit.check_nothing_left(self.daemon.data)
        self.daemon.close()
        podkit.remove_traces(self.daemon.data)
        for person in self.people.values():
            person.remove()
        shutil.rmtree(self.place, ignore_errors=True)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("training"))
    yield lab
    lab.close()


def losses(text):
    return [(int(n), float(loss)) for n, loss in re.findall(r"^epoch (\d+)\b.* loss (\d+\.\d+)", text, re.M)]


# ---- submitting ----

def options(script="/custom/tiny.py", custom="{scripts}", **more):
    return {"custom_dir": custom, "script_path": script, **more}


@pytest.mark.parametrize("given,sentence", [
    (options("{scripts}/tiny.py"), "--script_path {scripts}/tiny.py is a path of this machine; in the container "
     "that folder is /custom: give --script_path /custom/tiny.py"),
    (options(custom=None), "--script_path /custom/tiny.py is in /custom, where nothing is mounted: add --custom_dir"),
    (options("/custom/none.py"), "--script_path /custom/none.py would be {scripts}/none.py, but there is no such file"),
    (options(custom="/root/x"), "--custom_dir /root/x: berthann may not read it: give one of your own"),
    (options(custom="/nowhere"), "--custom_dir /nowhere: there is no such folder on this machine"),
    (options(snapshots_dir="/etc/berth-x"), "--snapshots_dir /etc/berth-x: berthann may not make it"),
    (options(estimated_memory=8001), "--estimated_memory 8001 is more than any GPU here has: at most 8000 MiB"),
    (options(est_nhours=1), "--est_nhours must be more than 1"),
    (options(batch_size=20, training_set_size=10), "--batch_size 20 is more than --training_set_size 10"),
    (options(is_single_gpu="maybe"), "--is_single_gpu must be true or false, not 'maybe'"),
    (options(port_mapping="80:80"), "--port_mapping: ports below 1024 are the system's"),
    (options(port_mapping="{taken}:6006"), "--port_mapping: node port {taken} is taken, choose another: a program "
     "of this machine listens there"),
])
def test_what_cannot_work_is_refused_at_submit_with_the_way_out(lab, given, sentence):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        values = {"scripts": lab.scripts, "taken": taken.getsockname()[1]}
        args = [part for key, value in given.items() if value is not None
                for part in (f"--{key}", str(value).format(**values))]
        said = lab.say("ann", "run-scheduler", *args, "wrong").fails()
        assert sentence.format(**values) in said
    jobs = lab.daemon.get("/v1/queue")["jobs"]
    assert not [job for job in jobs if job["name"].startswith("wrong")]


@pytest.mark.parametrize("version", harness.edge_kubectls())
def test_kubectl_is_told_the_same(lab, version):
    said = lab.daemon.kubectl("create", "-f", "-", version=version, stdin={
        "apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": "big"},
        "spec": {"image": "host", "command": ["true"], "estimatedMemoryMiB": 9000}}).fails()
    assert 'The TrainingJob "big" is invalid: spec: ' in said
    assert "--estimated_memory 9000 is more than any GPU here has" in said


def test_a_dry_run_stores_nothing_and_tells_the_place(lab):
    body = {"job_name": "Try It", "script_path": "/custom/tiny.py", "custom_dir": str(lab.scripts), "max_epochs": "3"}
    answer = lab.daemon.post("/v1/train?dryRun=1", body)
    assert answer["manifest"]["metadata"]["name"] == "try-it"
    assert "kind: TrainingJob" in answer["yaml"] and "startEstimate" in answer and "position" in answer
    assert lab.daemon.request("GET", "/v1/queue/try-it").code == 404


# ---- what a job finds ----

SHOW = """
import json, os, sys, urllib.request, urllib.error
import berth, kubernetesdlprofile
print("ENV " + json.dumps(dict(os.environ)))
print("WHERE " + berth.__file__, os.getuid(), os.getcwd(), sorted(os.listdir("/data")))
def call(path, headers={}):
    try:
        return urllib.request.urlopen(urllib.request.Request(os.environ["BERTH_URL"] + path, headers=headers)).read().decode()
    except urllib.error.HTTPError as error:
        return error.code
mine = "/has_to_stop/" + os.environ["JOB_UUID"]
print("CALLS", call(mine), call(mine, {"Authorization": "Bearer " + os.environ["BERTH_TOKEN"]}),
      call(mine, {"Authorization": "Bearer x"}), call("/v1/status"), call("/has_to_stop/" + sys.argv[1]) if sys.argv[1:] else "")
"""


def test_a_job_finds_the_guides_environment_its_folders_and_the_library(lab):
    ann = lab.people["ann"]
    (ann.home / "datasets").mkdir()
    (ann.home / "datasets" / "cifar").write_text("")
    lab.script("show.py", SHOW)
    other = lab.daemon.post("/v1/train", {"job_name": "other", "command": ["sleep", "1"]})["id"]
    made = lab.daemon.post("/submit", {
        "username": ann.name, "jobName": "show", "dockerImage": "host", "scriptPath": "/custom/show.py",
        "directoryToMount": str(lab.scripts), "batchSize": 5, "trainingSetSize": 50, "maxEpochs": 4,
        "isSingleGPU": True, "disableGPUSharing": False, "estimatedMemory": 2000, "args": [other]})
    job = lab.until(made["jobid"], "ends", lambda job: job["state"] == "Succeeded")
    text = lab.logs(made["jobid"])
    env = json.loads(re.search(r"^ENV (.*)$", text, re.M).group(1))
    expected = {"WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "NODE_RANK": "0", "JOB_UUID": made["jobid"],
                "JOB_RESTARTED": "FALSE", "RESERVED_MEM": "2000", "EPOCHS_DONE": "0", "NUM_GPUS": "1",
                "NUM_NODES": "1", "PL_TORCH_DISTRIBUTED_BACKEND": "nccl", "BATCH_SIZE": "5", "EPOCHS_TO_BE_DONE": "4",
                "TRAINING_SET_SIZE": "50", "HEARTBEAT_FREQ": "1", "USER": ann.name}
    assert {key: env.get(key) for key in expected} == expected
    assert json.loads(env["TF_CONFIG"])["task"] == {"type": "worker", "index": 0}
    assert re.match(r"GPU-declared-\d$", env["CUDA_VISIBLE_DEVICES"]) and env["MASTER_PORT"].isdigit()
    assert f"WHERE /opt/berth/python/berth/__init__.py {ann.uid} /custom ['cifar']" in text
    assert "CALLS 0 0 401 404 403" in text
    assert (job["user"], job["namespace"]) == (ann.name, ann.name)


def test_node_ports_lead_into_the_job(lab):
    lab.script("serve.py", "import socket\ns = socket.create_server(('0.0.0.0', 6006))\nprint('up', flush=True)\n"
                           "c, _ = s.accept()\nc.sendall(b'hello')\nc.close()\n")
    port = labkit.free_port()
    uid = lab.submit("bob", "board", "/custom/serve.py", "--port_mapping", f"{port}:6006")
    refused = lab.say("ann", "run-scheduler", "--custom_dir", lab.scripts, "--script_path", "/custom/serve.py",
                      f"--port_mapping={port}:6006", "board").fails()
    assert f"node port {port} is taken, choose another: job 'board' has asked for it" in refused
    harness.wait(lambda: "up" in lab.logs(uid), "it listens", 30)
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        assert connection.recv(10) == b"hello"
    lab.until(uid, "ends", lambda job: job["state"] == "Succeeded")


def test_the_original_librarys_calls_are_accepted(lab):
    """All versions' calls, on the socket as admin: exact answers, jumps in done, repeats."""
    lab.script("wait.py", "import time\ntime.sleep(60)\n")
    uid = lab.submit("ann", "wire", "/custom/wait.py", "--max_epochs", "10")
    lab.until(uid, "runs", lambda job: job["state"] == "Running")

    def call(method, path, body=None):
        answer = lab.daemon.request(method, path, body)
        assert answer.code == 200, (path, answer.code, answer.body)
        return answer.body

    row = {"jobid": uid, "timestamp": "2026-11-16T01:02:03.4", "iternum": 50, "nodelist": "lab1", "numgpu": 1,
           "rank": 0, "meandur": 0.25, "gpumem": 0}
    assert call("GET", f"/has_to_stop/{uid}") == b"0"
    call("POST", f"/profiling/{uid}", row)
    call("POST", f"/profiling/{uid}", {**row, "epochDur": 12.5})
    for done in (1, 1, 4, 2):
        call("POST", f"/end_epoch/{uid}", {"done": done})
    call("POST", f"/signal_end_profiling/{uid}/cfg-1",
         {"meanIterDuration": 0.2, "endTime": "x", "gpuUsage": 50, "gpuMemUsage": 700})
    call("POST", f"/v1/train/{uid}/log", {"rank": 0, "records": [
        {"time": 1.8e9, "step": 1, "epoch": 0, "values": {"loss": 0.5}}]})
    call("POST", f"/signal_end/{uid}")
    job = lab.job(uid)
    assert job["epochsDone"] == 4 and [p[2] for p in job["metrics"]["loss"]] == [0.5]
    assert lab.daemon.request("POST", f"/end_epoch/{uid}", {"done": "soon"}).code == 400
    assert lab.daemon.request("POST", f"/end_epoch/{uid}", "[1]").code == 400
    assert lab.daemon.request("GET", "/has_to_stop/nobody").code == 404
    assert lab.daemon.request("GET", f"/has_to_stop/{uid}", via="http").code == 403
    lab.say("ann", "scheduler-cancel-job", uid).ok()
    lab.until(uid, "is cancelled", lambda job: job["state"] == "Cancelled")


# ---- preempted and resumed ----

@pytest.fixture(scope="module")
def trained(lab):
    """{example: (job, log, the interrupter's id)}: all of them run at once, each preempted by another person's first
    GPU."""
    names = [name for name in JOBS if TORCH or PLAIN[name]]
    lab.script("wait.py", "import time\ntime.sleep(300)\n")
    keep = lab.submit("ann", "keep", "/custom/wait.py", "--priority", "9")
    lab.until(keep, "runs", lambda job: job["state"] == "Running")
    fill = [lab.submit("ann", f"fill-{i}", "/custom/wait.py", "--priority", "8") for i in range(3 - len(names))]
    uids = {}
    for part in ([n for n in names if not PLAIN[n]], [n for n in names if PLAIN[n]]):  # torch takes long to load
        for name in part:
            uids[name] = lab.submit("ann", name, f"/custom/{name}_example.py", "--max_epochs", str(EPOCHS), *JOBS[name],
                                    "--env", "EXAMPLE_PAUSE=0.1", "--est_nhours", "2")
        for name in part:
            lab.until(uids[name], "has begun", lambda job: job["epochsDone"] >= 1)
    lab.script("short.py", "import os, time\nwhile not os.path.exists('/custom/go'):\n    time.sleep(0.05)\n")
    short = [lab.submit(who, "short", "/custom/short.py") for who in ("bob", "eve", "dan")[:len(names)]]
    for uid in short:
        lab.until(uid, "runs", lambda job: job["state"] == "Running")
    lab.script("go", "")
    for uid in short:
        lab.until(uid, "ends", lambda job: job["state"] == "Succeeded")
    result = {name: (lab.until(uid, "ends", lambda job: job["state"] == "Succeeded", 180), lab.logs(uid), set(short))
              for name, uid in uids.items()}
    for uid in [keep, *fill]:
        lab.say("ann", "scheduler-cancel-job", uid).ok()
    return result


@pytest.mark.parametrize("name", JOBS)
def test_an_example_is_preempted_resumed_and_learns_as_if_it_had_not_been(lab, trained, name, tmp_path):
    if name not in trained:
        pytest.skip("python3-torch is not installed")
    job, log, interrupters = trained[name]
    assert job["epochsDone"] == EPOCHS and job["restarts"] >= 1, log
    stopped = [entry for entry in job["history"] if entry["state"] == "Preempted"]
    assert stopped and {entry["by"] for entry in stopped} & interrupters, job["history"]
    assert "restored" in log
    one_epoch = 1.5 * max(epoch["seconds"] for epoch in job["epochs"]) + 1
    story = "\n".join(f"{e['time']} {e['state']} lost {e['lostSeconds']} {e['reason']}" for e in job["history"])
    assert all(entry["lostSeconds"] <= one_epoch for entry in stopped), f"more than {one_epoch} s lost\n{story}\n{log}"

    given = dict(part.lstrip("-").split("=") if "=" in part else (part.lstrip("-"), value)
                 for part, value in zip(JOBS[name], JOBS[name][1:] + [""]) if part.startswith("--"))
    alone = harness.run(["/usr/bin/python3", EXAMPLES / f"{name}_example.py"], cwd=tmp_path, timeout=120, env={
        **os.environ, "PYTHONPATH": str(harness.ROOT / "python" / "src"), "EPOCHS_TO_BE_DONE": str(EPOCHS),
        "BATCH_SIZE": given["batch_size"], "TRAINING_SET_SIZE": given["training_set_size"]}).ok()
    expected, found = losses(alone), losses(log)
    assert [n for n, _ in found] == list(range(1, EPOCHS + 1)), log
    for (_, ours), (_, theirs) in zip(found, expected):
        assert abs(ours - theirs) < 1e-3, (found, expected)
    assert found[-1][1] < found[0][1]


def test_logs_are_the_owners(lab, trained):
    job = next(iter(trained.values()))[0]
    assert "epoch 1 loss" in lab.say("ann", "scheduler-get-logs", job["id"]).ok()
    lab.say("bob", "scheduler-get-logs", job["id"]).fails()


def test_metrics_and_snapshots_by_import_berth(lab):
    shots = lab.people["dan"].home / "shots" / "deep"
    uid = lab.submit("dan", "tiny", "/custom/tiny.py", "--max_epochs", "3", "--snapshots_dir", shots)
    job = lab.until(uid, "ends", lambda job: job["state"] == "Succeeded")
    assert len(job["metrics"]["loss"]) == 3 and job["epochsDone"] == 3
    assert json.loads((shots / uid / "line.json").read_text())


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="this machine has GPUs")
def test_without_gpus_a_job_is_refused_at_submit_and_runs_when_it_asks_for_none(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text("print('trained')\n")
    env = {"BERTH_SHIM": str(podkit.SHIM), "BERTH_IMAGE_HELPER": str(podkit.HELPER)}
    node = harness.Daemon(tmp_path / "d", "--agent", "on", env=env)
    try:
        run = lambda *options: node.berth("run", *options, "--", "python3", "train.py", cwd=tmp_path / "project")
        assert "the job asks for 1 GPU, but there are no GPUs here: ask for none to run it on the CPU (--gpus 0" in \
            run().fails(1)
        assert "the job asks for 900.0 GiB of memory, but the largest node, " in run("--gpus", "0", "--memory", "900Gi").fails(1)
        assert node.get("/apis/berth.dev/v1/trainingjobs")["items"] == []
        assert "trained\n" in run("--gpus", "0").ok()
    finally:
        podkit.close(node)
