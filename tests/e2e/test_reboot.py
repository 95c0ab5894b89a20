"""What pods live through: the daemon's death, a reboot, containers that vanish, memory that runs out; two
hundred at once. And that nothing is left of them."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest

import harness
import podkit
from podkit import close, create, get, needs, phase, pod, state, until

pytestmark = [needs, pytest.mark.plain]


@pytest.fixture
def node(tmp_path, request):
    boot = tmp_path / "boot_id"
    boot.write_text("11111111-1111-1111-1111-111111111111\n")
    daemon = podkit.start(tmp_path, *getattr(request, "param", []), env={"BERTH_BOOT_ID": str(boot)})
    yield daemon
    if not daemon.running():
        daemon.start()
    close(daemon)


def pull_the_plug(daemon):
    """As after a power cut: no process, mount, namespace, link or run folder is left, the boot id is another."""
    name = podkit.suffix(daemon.data)
    daemon.kill9()
    for pid in podkit.shims(daemon.data):
        os.kill(pid, signal.SIGKILL)

    def all_dead():
        for pid in podkit.processes(daemon):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not podkit.processes(daemon)
    harness.wait(all_dead, "all processes are dead")
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    for path in reversed([line.split()[4] for line in lines]):
        if path.startswith((f"{daemon.data}/", f"/run/berth-{name}/")):
            subprocess.run(["umount", "-l", path], check=False)
    podkit.remove_traces(daemon.data, all_cgroups=True)
    (daemon.folder / "boot_id").write_text("22222222-2222-2222-2222-222222222222\n")


def job(name, command):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                                           "containers": [{"name": "c", "image": "host",
                                                           "command": ["sh", "-c", command]}]}}}}


def test_reboot(node):
    flag = node.folder / "go"
    spec = {"terminationGracePeriodSeconds": 0}
    work = job("work", f"test -e {flag} && exit 0; exec sleep 1000")
    mounts = {"volumes": [{"name": "h", "hostPath": {"path": str(node.folder)}}]}
    work["spec"]["template"]["spec"].update(mounts)
    work["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "h", "mountPath": str(node.folder)}]
    create(node, work, pod("bare", "exec sleep 1000", spec=spec), pod("again", "exec sleep 1000", "Always", spec=spec),
           pod("done", "exit 0"))
    for name in ("bare", "again"):
        phase(node, name, "Running")
    phase(node, "done", "Succeeded")
    harness.wait(lambda: node.kubectl("get", "pods", "-l", "job-name=work", "-o",
                                      "jsonpath={.items[*].status.phase}").out == "Running", "the job runs")
    pull_the_plug(node)
    flag.touch()
    node.start()
    node.kubectl("wait", "--for=condition=complete", "job/work", "--timeout=40s").ok()
    found = phase(node, "bare", "Failed")["status"]
    assert found["reason"] == "NodeReboot" and found["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    found = until(node, "again", lambda p: p["status"]["phase"] == "Running" and
                  p["status"]["containerStatuses"][0]["restartCount"] == 1 and state(p).get("running"), "runs again")
    assert node.kubectl("exec", "again", "--", "echo", "up").ok() == "up\n"
    assert phase(node, "done", "Succeeded")


def test_shutdown(node):
    """As the unit's ExecStop has it: pods end with their grace, then the daemon."""
    once = job("once", "test -e /h/go && exit 0; trap 'exit 0' TERM; echo ready; while :; do sleep .05; done")
    once["spec"]["backoffLimit"] = 0
    hold = {"volumes": [{"name": "h", "hostPath": {"path": str(node.folder)}}]}
    seen = {"volumeMounts": [{"name": "h", "mountPath": "/h"}]}
    once["spec"]["template"]["spec"].update(hold, terminationGracePeriodSeconds=10)
    once["spec"]["template"]["spec"]["containers"][0].update(seen)
    spec = {"terminationGracePeriodSeconds": 0}
    tidy = "trap 'echo bye >> /h/said; exit 0' TERM; echo ready; while :; do sleep .05; done"
    train = {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": "train"},
             "spec": {"image": "host", "customDir": str(node.folder), "singleGPU": True, "command": [
                 "sh", "-c", "test -e /custom/go && exit 0; trap 'exit 3' TERM; echo ready; while :; do sleep .05; done"]}}
    create(node, once, train, pod("bare", "exec sleep 1000", spec=spec),
           pod("again", "exec sleep 1000", "Always", spec={**spec, "shareProcessNamespace": True}),
           pod("tidy", tidy, "OnFailure", spec={**hold, "terminationGracePeriodSeconds": 10}, **seen))
    for name in ("bare", "again", "tidy"):
        phase(node, name, "Running")
    for name in ("job/once", "tidy", "-l=berth.dev/run=1"):
        harness.wait(lambda n=name: node.kubectl("logs", n).out == "ready\n", f"{name} can be told")
    node.process.send_signal(signal.SIGPWR)
    assert node.process.wait(20) == 0
    assert not podkit.processes(node) and (node.folder / "said").read_text() == "bye\n"
    harness.wait(lambda: not podkit.shims(node.data), "no monitor is left")
    pull_the_plug(node)
    (node.folder / "go").touch()
    node.start()
    node.kubectl("wait", "--for=condition=complete", "job/once", "--timeout=40s").ok()
    harness.wait(lambda: node.kubectl("get", "trainingjob", "train", "-o", "jsonpath={.status.phase}").out == "Succeeded",
                 "the training job is run again")
    assert phase(node, "bare", "Failed")["status"]["reason"] == "NodeReboot"
    for name in ("again", "tidy"):
        until(node, name, lambda p: p["status"]["containerStatuses"][0]["restartCount"] == 1 and
              state(p).get("running"), "runs again")


def test_what_happens_while_the_daemon_is_dead(node):
    spec = {"terminationGracePeriodSeconds": 0}
    flag = node.folder / "go"
    then = f"while ! [ -e {flag} ]; do sleep .05; done; "
    spec["volumes"] = [{"name": "h", "hostPath": {"path": str(node.folder)}}]
    seen = {"volumeMounts": [{"name": "h", "mountPath": str(node.folder)}]}
    create(node, pod("oom", then + "exec tail /dev/zero", spec=spec, resources={"limits": {"memory": "20Mi"}}, **seen),
           pod("fine", then + "echo bye", spec=spec, **seen), pod("bad", then + "exit 9", "OnFailure", spec=spec, **seen),
           pod("gone", "exec sleep 1000", spec=spec),
           pod("stays", "exec sleep 1000", spec=spec, **{
               kind: {"exec": {"command": ["sh", "-c", f"! [ -e {flag} ]"]}, "periodSeconds": 1, "failureThreshold": 99}
               for kind in ("startupProbe", "readinessProbe")}, **seen))
    for name in ("oom", "fine", "bad", "gone", "stays"):
        phase(node, name, "Running")
    node.kubectl("wait", "--for=condition=Ready", "pod/stays", "--timeout=20s").ok()
    conditions = get(node, "stays")["status"]["conditions"]
    uid = node.kubectl("get", "pod", "gone", "-o", "jsonpath={.metadata.uid}").ok()
    node.kill9()
    flag.touch()
    harness.wait(lambda: len(list(podkit.containers(node.data).glob("*/exit"))) >= 3, "three end meanwhile")
    for pid, folder in podkit.shims(node.data).items():
        if uid in folder:
            os.kill(pid, signal.SIGKILL)  # a monitor that vanishes takes the exit code with it
    node.start()
    assert state(phase(node, "oom", "Failed"))["terminated"]["reason"] == "OOMKilled"
    phase(node, "fine", "Succeeded")
    assert node.kubectl("logs", "fine").ok() == "bye\n"
    until(node, "bad", lambda p: state(p, "lastState").get("terminated", {}).get("exitCode") == 9, "runs again")
    ended = state(phase(node, "gone", "Failed"))["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("ContainerStatusUnknown", 137)
    assert get(node, "stays")["status"]["conditions"] == conditions  # as the last probe found it


def small_work(chance, name, folder):
    """A pod that notes each of its runs; (pod, how many there must be, exit code)."""
    code, seconds = chance.choice([0, 3, 7]), chance.choice([0, 0, .1, .4])
    run = f"echo run >> /h/{name}; echo log of {name}; sleep {seconds}; "
    if chance.random() < .3:
        policy, runs, end = "OnFailure", 2, f"test $(wc -l < /h/{name}) -ge 2 && exit 0; exit 5"
    else:
        policy, runs, end = "Never", 1, f"exit {code}"
    mount = {"name": "h", "mountPath": "/h"}
    one = pod(name, run + end, policy, volumeMounts=[mount],
              spec={"volumes": [{"name": "h", "hostPath": {"path": str(folder)}}],
                    "terminationGracePeriodSeconds": 0, "shareProcessNamespace": chance.random() < .2})
    if chance.random() < .3:
        one["spec"]["initContainers"] = [{"name": "i", "image": "host", "volumeMounts": [mount],
                                          "command": ["sh", "-c", f"echo run >> /h/{name}.init"]}]
    return one, runs, 0 if runs == 2 else code


def test_killed_at_any_moment(node):
    """Every container runs exactly once for each run that its pod is due, whenever the daemon is killed."""
    chance, out = random.Random(4), node.folder / "out"
    out.mkdir()
    work = {f"p{i}": small_work(chance, f"p{i}", out) for i in range(20)}

    def submit():
        for document, _, _ in work.values():
            while True:  # the daemon may be away
                try:
                    if node.request("POST", "/api/v1/namespaces/default/pods", body=document).code in (201, 409):
                        break
                except OSError:
                    time.sleep(.02)

    def over():
        found = node.get("/api/v1/pods")["items"]
        return len(found) == len(work) and all(p["status"].get("phase") in ("Succeeded", "Failed") for p in found)
    people = threading.Thread(target=submit)
    people.start()
    for _ in range(15):
        time.sleep(chance.uniform(0, .25))
        node.kill9()
        node.start()
    people.join()
    harness.wait(over, "all have ended", 30)
    for name, (_, runs, code) in work.items():
        found = get(node, name)
        assert "reason" not in found["status"], found["status"]
        assert state(found)["terminated"]["exitCode"] == code, found["status"]
        assert (out / name).read_text() == "run\n" * runs, name
        assert node.kubectl("logs", name).ok() == f"log of {name}\n"
    assert {f.read_text() for f in out.glob("*.init")} == {"run\n"}


def test_back_off_is_kept_by_a_restart(node):
    create(node, pod("crash", "exit 1", "Always"))
    until(node, "crash", lambda p: "back-off 10s" in state(p).get("waiting", {}).get("message", ""), "waits 10 s")
    node.kill9()
    node.start()
    found = until(node, "crash", lambda p: "back-off 20s" in state(p).get("waiting", {}).get("message", ""),
                  "waits 20 s", 25)
    assert found["status"]["containerStatuses"][0]["restartCount"] == 2


def test_follow_and_exec_end_with_the_daemon_and_begin_anew(node):
    create(node, pod("ticks", "i=0; while :; do echo $i; i=$((i+1)); sleep .1; done",
                     spec={"terminationGracePeriodSeconds": 0}))
    phase(node, "ticks", "Running")
    with subprocess.Popen(["kubectl", "logs", "-f", "ticks"], env=node.program_env(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as follow:
        assert follow.stdout.readline() == "0\n"
        node.restart()
        follow.communicate(timeout=20)
    with subprocess.Popen(["kubectl", "logs", "-f", "ticks"], env=node.program_env(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as follow:
        lines = [follow.stdout.readline() for _ in range(30)]
        follow.kill()
    assert lines == [f"{i}\n" for i in range(30)]  # nothing was lost
    assert node.kubectl("exec", "ticks", "--", "echo", "in").ok() == "in\n"


def test_shared_processes_live_through_a_restart(node):
    create(node, pod("shared", "exec sleep 4321", "Always",
                     spec={"shareProcessNamespace": True, "terminationGracePeriodSeconds": 0}))
    phase(node, "shared", "Running")
    node.kill9()
    node.start()
    assert "sleep 4321" in node.kubectl("exec", "shared", "--", "ps", "-e", "-o", "args=").ok()
    assert phase(node, "shared", "Running")["status"]["containerStatuses"][0]["restartCount"] == 0
    node.kubectl("exec", "shared", "--", "kill", "1")  # with the first process all others end
    until(node, "shared", lambda p: p["status"]["containerStatuses"][0]["restartCount"] == 1 and
          state(p).get("running"), "runs again in a new namespace")


@pytest.mark.parametrize("node", [["--oci-runtime", "runc"]], indirect=True)
@pytest.mark.skipif(not shutil.which("runc"), reason="there is no runc")
def test_runc(node):
    assert "runc" in node.berth("status").ok()
    create(node, pod("r", "echo by runc; exit 3"), pod("s", "exec sleep 1000", spec={"terminationGracePeriodSeconds": 0}))
    assert state(phase(node, "r", "Failed"))["terminated"]["exitCode"] == 3
    assert node.kubectl("logs", "r").ok() == "by runc\n"
    phase(node, "s", "Running")
    node.kill9()
    node.start()
    assert node.kubectl("exec", "s", "--", "echo", "in").ok() == "in\n"


def test_one_out_of_memory_leaves_the_others_alone(node):
    spec = {"terminationGracePeriodSeconds": 0}
    create(node, pod("calm", "exec sleep 1000", spec=spec),
           pod("hungry", "exec tail /dev/zero", "Always", spec=spec, resources={"limits": {"memory": "30Mi"}}))
    before = state(phase(node, "calm", "Running"))["running"]["startedAt"]
    pid = node.process.pid
    until(node, "hungry", lambda p: p["status"]["containerStatuses"][0]["restartCount"] >= 1 and
          state(p, "lastState").get("terminated", {}).get("reason") == "OOMKilled", "is killed and restarted")
    assert state(phase(node, "calm", "Running"))["running"]["startedAt"] == before
    assert node.process.pid == pid and node.running()


def test_two_hundred_pods_at_once(node):
    many = {"apiVersion": "v1", "kind": "List", "items": [
        pod(f"p{i}", "exec true", resources={"requests": {"cpu": "1m"}, "limits": {"nvidia.com/gpu": 1}})
        for i in range(200)]}
    node.kubectl("create", "-f", "-", stdin=many, timeout=60).ok()

    def ended():
        phases = node.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.phase}").ok().split()
        assert "Failed" not in phases
        return phases == ["Succeeded"] * 200
    harness.wait(ended, "all two hundred succeed", 120, 0.5)
    harness.wait(lambda: not list(podkit.containers(node.data).iterdir()), "no container is left")


def test_memory_of_the_machine_runs_short(tmp_path):
    info = tmp_path / "meminfo"
    info.write_text("MemAvailable: 10000000 kB\n")
    daemon = podkit.start(tmp_path, env={"BERTH_MEMINFO": str(info)})
    try:
        create(daemon, pod("small", "exec sleep 1000", spec={"terminationGracePeriodSeconds": 0}),
               pod("large", "exec python3 -c 'b = bytearray(60 << 20); input()' < /dev/zero; sleep 1000",
                   spec={"terminationGracePeriodSeconds": 0}))
        phase(daemon, "small", "Running")
        phase(daemon, "large", "Running")
        info.write_text("MemAvailable: 50000 kB\n")
        found = harness.wait(lambda: [p for p in daemon.kubectl("get", "pods", "-o", "json").json()["items"]
                                      if p["status"].get("reason") == "Evicted"], "a pod is evicted", 15)
        info.write_text("MemAvailable: 10000000 kB\n")
        assert "The node was low on resource: memory" in found[0]["status"]["message"]
    finally:
        close(daemon)


def test_a_full_disk_evicts_who_fills_it(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", data], check=True)
    try:
        daemon = podkit.start(tmp_path)
        try:
            create(daemon, pod("tidy", "exec sleep 1000", spec={"terminationGracePeriodSeconds": 0}),
                   pod("filler", "head -c 200000000 /dev/zero > /e/f; sleep 1000",
                       spec={"terminationGracePeriodSeconds": 0, "volumes": [{"name": "e", "emptyDir": {}}]},
                       volumeMounts=[{"name": "e", "mountPath": "/e"}]))
            phase(daemon, "tidy", "Running")
            found = phase(daemon, "filler", "Failed")["status"]
            assert found["reason"] == "Evicted" and "ephemeral-storage" in found["message"]
            phase(daemon, "tidy", "Running")
        finally:
            close(daemon)
    finally:
        subprocess.run(["umount", "-l", data], check=True)


def test_what_ended_on_a_full_disk_does_not_run_again(tmp_path):
    data, marks = tmp_path / "data", tmp_path / "marks"
    data.mkdir()
    marks.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", data], check=True)
    try:
        daemon = podkit.start(tmp_path, "--backup-hours", "off")
        try:
            spec = pod("x", "echo run >>/marks/runs; until [ -e /marks/go ]; do sleep 0.05; done; exit 7",
                       spec={"volumes": [{"name": "m", "hostPath": {"path": str(marks)}}]},
                       volumeMounts=[{"name": "m", "mountPath": "/marks"}])["spec"]
            create(daemon, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
                            "spec": {"backoffLimit": 0, "template": {"spec": spec}}})
            harness.wait((marks / "runs").exists, "it runs")
            name = daemon.kubectl("get", "pods", "-o", "json").json()["items"][0]["metadata"]["name"]
            until(daemon, name, lambda p: p["status"]["phase"] == "Running", "it is known to run")
            filler = data / "filler"
            with open(filler, "wb", buffering=0) as file:  # to the last byte
                for size in (1 << 20, 4096, 1):
                    try:
                        while True:
                            file.write(b"x" * size)
                    except OSError:
                        pass
            (marks / "go").touch()
            harness.wait(lambda: "full" in daemon.log(), "a commit fails")
            daemon.stop()
            filler.unlink()
            daemon.start()
            found = phase(daemon, name, "Failed")
            assert found["status"].get("reason") != "NodeReboot"
            assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
            harness.wait(lambda: any(c["type"] == "Failed" and c["status"] == "True" for c in daemon.kubectl(
                "get", "job", "once", "-o", "json").json()["status"].get("conditions", [])), "the Job has failed")
            assert (marks / "runs").read_text() == "run\n"
        finally:
            close(daemon)
    finally:
        subprocess.run(["umount", "-l", data], check=True)
