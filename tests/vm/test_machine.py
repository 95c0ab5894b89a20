"""Berth as a service on a real Debian 12: systemd, cgroup v2, reboots. Runs outside ./check, on the virtual machine of
tools/vm (tools/vm/run test)."""

import json
import os
import pathlib
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ROOT / "tools" / "vm" / "run"
BUILD = os.environ.get("BERTH_BUILD") or ROOT / "build" / "check-gcc"
CONSOLE = pathlib.Path(os.environ.get("VM_DIR") or ROOT / "build" / "vm") / "console"
SLOW = 120  # seconds: without kvm everything takes long


def vm(*args, check=True, stdin=None, timeout=900):
    done = subprocess.run([str(RUN), *map(str, args)], input=stdin, text=True, capture_output=True, timeout=timeout,
                          check=False)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0 or not check, f"{args}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def sh(command, **more):
    return vm("sh", command, **more)


def kubectl(words, **more):
    return sh(f"KUBECONFIG=/var/lib/berth/admin.kubeconfig kubectl {words}", **more)


def wait(what, test, timeout=SLOW):
    deadline = time.monotonic() + timeout
    while True:
        found = test()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.5)


def container(command, **more):
    return {"name": "c", "image": "host", "command": ["sh", "-c", command], **more}


def pod(name, command, policy="Never", spec=None, **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 2, **(spec or {}),
                     "containers": [container(command, **more)]}}


def job(name, command, **spec):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {**spec, "template": {"spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
                "volumes": [{"name": "h", "hostPath": {"path": "/srv"}}],
                "containers": [container(command, volumeMounts=[{"name": "h", "mountPath": "/srv"}])]}}}}


def create(*objects):
    kubectl("create -f -", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def get(name):
    return json.loads(kubectl(f"get pod {name} -o json"))


def until(name, what, test, timeout=SLOW):
    def look():
        found = get(name)
        return found if test(found) else None
    return wait(f"{name}: {what}", look, timeout)


def phase(name, wanted):
    return until(name, wanted, lambda p: p["status"].get("phase") == wanted)


def state(found, kind="state"):
    return found["status"]["containerStatuses"][0][kind]


def cgroup(name, file):
    uid = get(name)["metadata"]["uid"]
    return sh(f"cat /sys/fs/cgroup/berth/{uid}_c_*/{file}").strip()


def started(name):
    return state(phase(name, "Running"))["running"]["startedAt"]


@pytest.fixture(scope="module", autouse=True)
def machine():
    vm("up")
    vm("install", BUILD)
    sh("mkdir -p /etc/berth && echo 'gpus: 2x1000' > /etc/berth/berthd.yaml; systemctl daemon-reload; "
       "systemctl enable berthd && systemctl restart berthd")
    kubectl("delete jobs,pods --all --grace-period=1 --wait=true")
    sh("rm -f /srv/go")
    yield
    kubectl("delete jobs,pods --all --grace-period=1 --wait=true")


def test_the_machine_is_what_it_is_for():
    assert sh("stat -fc %T /sys/fs/cgroup").strip() == "cgroup2fs"
    assert "systemd" in sh("cat /proc/1/comm")
    found = sh("berth doctor")
    assert "fail" not in found and "version 2" in found, found


def test_limits_are_in_the_cgroup_and_stay_there():
    create(pod("limited", "exec sleep 10000",
               resources={"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "500m"}}))
    phase("limited", "Running")
    for _ in range(2):
        assert [cgroup("limited", f) for f in ("cpu.max", "memory.max", "cpu.weight")] == \
            ["150000 100000", str(64 << 20), "20"]
        assert int(cgroup("limited", "pids.max")) >= 1024
        sh("systemctl daemon-reload && systemctl daemon-reexec")  # systemd sets its own cgroups anew
    assert int(sh("cat /sys/fs/cgroup/berth/cpu.weight")) == 100 * int(sh("nproc"))
    kubectl("delete pod limited --grace-period=0 --force")


def test_out_of_memory_ends_one_pod_alone():
    create(pod("calm", "exec sleep 10000"),
           pod("hungry", "exec tail /dev/zero", resources={"limits": {"memory": "30Mi"}}))
    before = started("calm")
    ended = state(phase("hungry", "Failed"))["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    assert started("calm") == before
    assert sh("systemctl is-active berthd").strip() == "active"
    kubectl("delete pod calm hungry --grace-period=0 --force")


def test_too_many_processes_end_at_the_limit():
    create(pod("forks", "i=0; while [ $i -lt 70000 ]; do sleep 10000 & i=$((i+1)); done; sleep 10000",
               resources={"limits": {"cpu": "500m"}}), pod("other", "echo fine"))
    phase("other", "Succeeded")
    most, now = int(cgroup("forks", "pids.max")), int(cgroup("forks", "pids.current"))
    assert now <= most < int(sh("cat /proc/sys/kernel/threads-max")) / 2
    kubectl("delete pod forks other --grace-period=0 --force")


def test_devices():
    """eBPF on cgroup v2: an ordinary container opens its few devices, a privileged one all."""
    look = ("mknod /d b 254 0; mknod /k c 1 11; head -c 1 /dev/null && echo null; "
            "head -c 1 /dev/zero >/dev/null && echo zero; (: < /k) && echo kmsg; (: < /d) && echo disk; :")
    create(pod("plain", look, securityContext={"capabilities": {"add": ["MKNOD"]}}),
           pod("mighty", look, securityContext={"privileged": True}))
    for name in ("plain", "mighty"):
        phase(name, "Succeeded")
    said = {name: [line for line in kubectl(f"logs {name}").split("\n") if line in ("null", "zero", "kmsg", "disk")]
            for name in ("plain", "mighty")}
    assert said == {"plain": ["null", "zero"], "mighty": ["null", "zero", "kmsg", "disk"]}
    kubectl("delete pod plain mighty")


def test_top():
    create(pod("busy", "while :; do :; done", resources={"limits": {"cpu": "300m"}}))
    phase("busy", "Running")

    def figure():
        lines = kubectl("top pod busy --no-headers", check=False).split()
        return lines and 150 <= int(lines[1].rstrip("m")) <= 400 and int(lines[2].rstrip("Mi")) < 50
    wait("kubectl top has the pod's use", figure)
    assert "vm" in kubectl("top node --no-headers")
    kubectl("delete pod busy --grace-period=0 --force")


def test_an_upgrade_leaves_pods_alone():
    sh("rm -f /srv/go")
    hold = {"volumes": [{"name": "h", "hostPath": {"path": "/srv"}}]}
    seen = {"volumeMounts": [{"name": "h", "mountPath": "/srv"}]}
    create(pod("stays", "i=0; while :; do echo $i; i=$((i+1)); sleep 1; done"),
           pod("ends", "while ! [ -e /srv/go ]; do sleep .2; done; echo over; exit 7", spec=hold, **seen))
    before = started("stays")
    phase("ends", "Running")
    pid = sh("systemctl show -P MainPID berthd")
    # the program is replaced while it runs, as by a package; a container ends while there is no daemon
    sh("cp /usr/local/sbin/berthd /usr/local/sbin/b && mv /usr/local/sbin/b /usr/local/sbin/berthd")
    sh("systemctl stop berthd && touch /srv/go && sleep 3 && systemctl start berthd")
    assert sh("systemctl show -P MainPID berthd") != pid
    assert state(phase("ends", "Failed"))["terminated"]["exitCode"] == 7
    assert kubectl("logs ends") == "over\n"
    assert started("stays") == before
    for _ in range(3):
        sh("systemctl restart berthd")
    assert started("stays") == before
    lines = kubectl("logs stays").split()
    assert lines == [str(i) for i in range(len(lines))] and lines  # none is missing
    assert kubectl("exec stays -- echo in") == "in\n"
    kubectl("delete pod stays ends --grace-period=0 --force")


@pytest.mark.parametrize("how", ["reboot", "power cut"])
def test_reboot(how):
    sh("rm -f /srv/go")
    create(job("work", "test -e /srv/go && exit 0; exec sleep 10000", backoffLimit=0),
           pod("bare", "exec sleep 10000"), pod("again", "exec sleep 10000", "Always"), pod("done", "true"))
    for name in ("bare", "again"):
        phase(name, "Running")
    phase("done", "Succeeded")
    wait("the job runs", lambda: kubectl("get pods -l job-name=work -o 'jsonpath={.items[*].status.phase}'") == "Running")
    sh("touch /srv/go; sync")
    said = CONSOLE.stat().st_size
    if how == "reboot":
        vm("reboot")
        assert b"Waiting for process" not in CONSOLE.read_bytes()[said:]  # systemd would wait 90 s for containers
    else:
        vm("cut")
    wait("berthd is back", lambda: sh("systemctl is-active berthd", check=False).strip() == "active")
    kubectl("wait --for=condition=complete job/work --timeout=120s")
    assert phase("bare", "Failed")["status"]["reason"] == "NodeReboot"
    until("again", "runs again", lambda p: state(p).get("running") and
          p["status"]["containerStatuses"][0]["restartCount"] == 1)
    assert kubectl("exec again -- echo up") == "up\n"
    phase("done", "Succeeded")
    kubectl("delete job/work pod/bare pod/again pod/done --grace-period=1")
