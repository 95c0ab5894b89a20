"""Pods that really run: containers of the local engine, with real kubectl. Needs root, an OCI runtime and
busybox; says so and skips without."""

import json
import os
import pathlib
import shutil
import urllib.request

import pytest

import harness
import labkit
import podkit
from podkit import as_nobody, close, containers, create, needs, phase, pod, start, state, until

pytestmark = needs


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = start(tmp_path_factory.mktemp("pods"))
    yield daemon
    close(daemon)


def test_node_is_ready_and_has_a_lease(node):
    nodes = node.kubectl("get", "nodes", "-o", "json").json()["items"]
    assert [c["status"] for c in nodes[0]["status"]["conditions"] if c["type"] == "Ready"] == ["True"]
    assert nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    node.kubectl("get", "lease", "-n", "kube-node-lease", nodes[0]["metadata"]["name"]).ok()


def test_pod_runs_to_its_end(node):
    create(node, pod("echo", "echo hello; echo to-stderr >&2; echo why > /dev/termination-log"))
    found = phase(node, "echo", "Succeeded")
    assert state(found)["terminated"]["reason"] == "Completed"
    assert state(found)["terminated"]["message"] == "why\n"
    assert found["status"]["podIP"] and found["status"]["hostIP"] and found["status"]["startTime"]
    assert sorted(node.kubectl("logs", "echo").ok().split()) == ["hello", "to-stderr"]
    assert "pod 'echo' has ended (Succeeded)" in node.berth("exec", "echo", "--", "true").fails(1)
    events = node.kubectl("get", "events", "--field-selector", "involvedObject.name=echo", "-o",
                          "jsonpath={.items[*].reason}").ok()
    assert {"Scheduled", "Created", "Started"} <= set(events.split())


def test_documents_are_parsed_at_most_five_times_from_create_to_running(node):
    parsed = lambda: node.get("/v1/status")["documentsParsed"]
    node.kubectl("get", "pods").ok()
    before = parsed()
    create(node, pod("once", "sleep 60"))
    until(node, "once", lambda found: found["status"].get("phase") == "Running", "runs")
    after = parsed()
    node.kubectl("delete", "pod", "once", "--grace-period=0", "--force").ok()
    assert after - before <= 5, (before, after)


def test_exit_code_is_shown(node):
    create(node, pod("three", "exit 3"))
    ended = state(phase(node, "three", "Failed"))["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Error")


def test_command_that_is_not_there(node):
    create(node, pod("nothing", ["/no/such/program"]))
    ended = state(phase(node, "nothing", "Failed"))["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")


def test_back_off(node):
    create(node, pod("crash", "echo again; exit 1", "Always"))
    found = until(node, "crash", lambda p: state(p).get("waiting", {}).get("reason") == "CrashLoopBackOff",
                  "CrashLoopBackOff")
    assert found["status"]["phase"] == "Running"
    assert found["status"]["containerStatuses"][0]["restartCount"] == 1
    assert state(found, "lastState")["terminated"]["exitCode"] == 1
    assert node.kubectl("logs", "crash", "--previous").ok() == "again\n"


def test_out_of_memory(node):
    create(node, pod("oom", "exec tail /dev/zero", resources={"limits": {"memory": "20Mi"}}))
    assert state(phase(node, "oom", "Failed"))["terminated"]["reason"] == "OOMKilled"


def test_image_that_cannot_be_pulled(node):
    bad = pod("noimage", "true")
    bad["spec"]["containers"][0]["image"] = "127.0.0.1:1/none:1"
    create(node, bad)
    until(node, "noimage", lambda p: state(p).get("waiting", {}).get("reason") == "ImagePullBackOff",
          "ImagePullBackOff")
    # Shown for a second before: whoever polls may miss it, the event stays.
    assert "Error: ErrImagePull" in node.kubectl("get", "events", "--field-selector", "involvedObject.name=noimage").ok()


def test_init_containers_come_first(node):
    one = pod("steps", "cat /w/log", spec={"volumes": [{"name": "w", "emptyDir": {}}]},
              volumeMounts=[{"name": "w", "mountPath": "/w"}])
    one["spec"]["initContainers"] = [
        {"name": n, "image": "host", "command": ["sh", "-c", f"echo {n} >> /w/log"],
         "volumeMounts": [{"name": "w", "mountPath": "/w"}]} for n in ("first", "second")]
    create(node, one)
    phase(node, "steps", "Succeeded")
    assert node.kubectl("logs", "steps").ok() == "first\nsecond\n"


def test_term_is_heard_before_the_end(node):
    create(node, pod("trap", "trap 'echo saved > /out/saved; exit 0' TERM; echo up; while :; do sleep .05; done",
                     "Always", spec={"volumes": [{"name": "out", "hostPath": {"path": str(node.folder)}}]},
                     volumeMounts=[{"name": "out", "mountPath": "/out"}]))
    phase(node, "trap", "Running")
    harness.wait(lambda: "up" in node.kubectl("logs", "trap").out, "the trap is set")
    node.kubectl("delete", "pod", "trap", timeout=20).ok()
    assert (node.folder / "saved").read_text() == "saved\n"
    assert node.kubectl("get", "pod", "trap").fails()


def test_deadline(node):
    create(node, pod("late", "sleep 1000", spec={"activeDeadlineSeconds": 1,
                                                 "terminationGracePeriodSeconds": 1}))
    assert phase(node, "late", "Failed")["status"]["reason"] == "DeadlineExceeded"


def test_environment_and_volumes(node):
    create(node,
           {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"rate": "0.5"}},
           {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sec"}, "stringData": {"token": "t0p"}},
           {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
           pod("filled",
               "cat /cm/rate /sec/token; echo; echo $RATE $TOKEN $ME $(basename /$CUDA_VISIBLE_DEVICES); "
               "echo kept > /pvc/file; df -k /dev/shm | tail -1 | awk '{print $2}'; stat -f -c %T /sec",
               spec={"volumes": [{"name": "cm", "configMap": {"name": "cm"}},
                                 {"name": "sec", "secret": {"secretName": "sec"}},
                                 {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "10Mi"}},
                                 {"name": "pvc", "persistentVolumeClaim": {"claimName": "claim"}}]},
               volumeMounts=[{"name": "cm", "mountPath": "/cm"}, {"name": "sec", "mountPath": "/sec"},
                             {"name": "shm", "mountPath": "/dev/shm"},
                             {"name": "pvc", "mountPath": "/pvc", "subPath": "a/b"}],
               resources={"limits": {"nvidia.com/gpu": 1}},
               env=[{"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "rate"}}},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "token"}}},
                    {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]))
    phase(node, "filled", "Succeeded", "Failed")
    lines = node.kubectl("logs", "filled").ok().splitlines()
    assert lines[0] == "0.5t0p"
    assert lines[1].startswith("0.5 t0p filled GPU-declared-")
    assert lines[2:] == ["10240", "tmpfs"]
    assert [p.read_text() for p in node.data.glob("volumes/pvc-*/a/b/file")] == ["kept\n"]


def test_job_completes(node):
    create(node, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"},
                  "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
                      {"name": "c", "image": "host", "command": ["true"]}]}}}})
    node.kubectl("wait", "--for=condition=complete", "job/job", "--timeout=20s").ok()


def test_exec_gives_output_and_exit_code(node):
    create(node, pod("inside", "sleep 1000"))
    phase(node, "inside", "Running")
    done = node.kubectl("exec", "inside", "--", "sh", "-c", "hostname; exit 4")
    assert (done.out, done.code) == ("inside\n", 4)
    assert node.kubectl("exec", "-i", "inside", "--", "cat", stdin="through").ok() == "through"


def test_probes(node):
    port = labkit.free_port()
    create(node,
           pod("healthy", "sleep .5; mkdir /tmp/w; echo ok > /tmp/w/ok; cd /tmp/w; exec python3 -m http.server 8080",
               "Always", ports=[{"containerPort": 8080, "name": "web", "hostPort": port}],
               startupProbe={"exec": {"command": ["sh", "-c", "echo >> /tmp/asked; test -e /tmp/w/ok"]},
                             "periodSeconds": 1},
               readinessProbe={"httpGet": {"path": "/ok", "port": "web"}, "periodSeconds": 1}),
           pod("sick", "exec sleep 1000", "Always", spec={"terminationGracePeriodSeconds": 1},
               livenessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}))
    node.kubectl("wait", "--for=condition=Ready", "pod/healthy", "--timeout=20s").ok()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/ok", timeout=10) as answer:
        assert answer.read() == b"ok\n"
    asked = node.kubectl("exec", "healthy", "--", "cat", "/tmp/asked").ok()
    until(node, "sick", lambda p: p["status"]["containerStatuses"][0]["restartCount"] > 0, "is restarted")
    assert node.kubectl("exec", "healthy", "--", "cat", "/tmp/asked").ok() == asked  # it has started: nobody asks again


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl on PATH")
def test_ordinary_users_have_their_own_rights(node, tmp_path):
    node.kubectl("create", "namespace", "nobody").ok()
    os.chmod(node.socket_folder, 0o755)
    open_dir = pathlib.Path("/tmp") / f"berth-nobody-{os.getpid()}"
    closed = open_dir / "closed"
    open_dir.mkdir()
    try:
        (closed / "inner").mkdir(parents=True)
        closed.chmod(0o700)
        open_dir.chmod(0o777)
        mount = [{"name": "h", "mountPath": "/h"}]

        def volume(path):
            return {"volumes": [{"name": "h", "hostPath": {"path": str(path)}}]}
        as_nobody(node, "whoami", "echo $CLUSTER_USER $CLUSTER_USER_ID $CLUSTER_GROUP_ID $HOME $USER",
                  env=[{"name": "CLUSTER_USER_ID", "value": "65534"}])
        as_nobody(node, "another", env=[{"name": "CLUSTER_USER_ID", "value": "12345"}])
        as_nobody(node, "pids", spec={"hostPID": True})
        as_nobody(node, "mine", spec=volume(open_dir), volumeMounts=mount)
        as_nobody(node, "theirs", spec=volume(closed / "inner"), volumeMounts=mount)
        as_nobody(node, "sub", spec=volume(open_dir),
                  volumeMounts=[{**mount[0], "subPath": "closed/inner"}])
        for name, setting in (("tuned", "net.ipv4.tcp_keepalive_time"), ("kernel", "net.core.somaxconn")):
            as_nobody(node, name, "cat /proc/sys/net/ipv4/tcp_keepalive_time",
                      spec={"securityContext": {"sysctls": [{"name": setting, "value": "77"}]}})
        as_nobody(node, "link", spec=volume("/proc/self/cwd"), volumeMounts=mount)
        as_nobody(node, "port", ports=[{"containerPort": 80, "hostPort": 81}])
        as_nobody(node, "cards", "echo $NVIDIA_VISIBLE_DEVICES-$CUDA_VISIBLE_DEVICES",
                  env=[{"name": f"{who}_VISIBLE_DEVICES", "value": "all"} for who in ("NVIDIA", "CUDA")])
        as_nobody(node, "root", spec={**volume(open_dir), "securityContext": {"runAsUser": 0}},
                  volumeMounts=mount)
        ns = ["-n", "nobody"]

        def succeeds(name):
            harness.wait(lambda: node.kubectl("get", "pod", name, *ns, "-o", "jsonpath={.status.phase}").out ==
                         "Succeeded", f"{name} succeeds")
        succeeds("mine")
        assert node.kubectl("logs", "mine", *ns).ok() == "65534\n"
        assert (open_dir / "file").stat().st_uid == 65534
        for name, why in (("theirs", "Permission denied"), ("sub", "Permission denied"),
                          ("link", "Too many levels of symbolic links"), ("port", "below 1024 are for admins")):
            harness.wait(lambda n=name, w=why: w in node.kubectl(
                "get", "events", *ns, "--field-selector", f"involvedObject.name={n}").out, f"{name} is refused")
        for name in ("root", "another", "pids", "kernel"):
            harness.wait(lambda n=name: "CreateContainerConfigError" in node.kubectl("get", "pod", n, *ns).out,
                         f"{name} is refused")
        for name in ("whoami", "cards", "tuned"):
            succeeds(name)
        assert node.kubectl("logs", "tuned", *ns).ok() == "77\n"
        assert node.kubectl("logs", "cards", *ns).ok() == "void-\n"  # not what it says itself
        assert node.kubectl("logs", "whoami", *ns).ok() == "nobody 65534 65534 /nonexistent nobody\n"
    finally:
        shutil.rmtree(open_dir)


def test_limits_reach_the_kernel(node):
    create(node, pod("limited", "exec sleep 1000", spec={"terminationGracePeriodSeconds": 0},
                     resources={"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "500m"}}))
    phase(node, "limited", "Running")
    v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    files = ["cpu.max", "memory.max", "cpu.weight", "pids.max"] if v2 else [
        "cpu/cpu.cfs_quota_us", "memory/memory.limit_in_bytes", "cpu/cpu.shares", "pids/pids.max"]
    cpu, memory, weight, pids = node.kubectl("exec", "limited", "--", "sh", "-c", "cd /sys/fs/cgroup; cat " +
                                             " ".join(files)).ok().splitlines()
    assert (cpu, memory, weight) == (("150000 100000" if v2 else "150000"), str(64 << 20), "20" if v2 else "512")
    most = min(int(pathlib.Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
    assert int(pids) == max(1024, min(65536, most // 4))


def test_pods_wait_for_cards(node):
    cards = {"resources": {"limits": {"nvidia.com/gpu": 3}}}
    create(node, pod("first", "exec sleep 1000", spec={"terminationGracePeriodSeconds": 1}, **cards),
           pod("second", "true", **cards))
    phase(node, "first", "Running")
    found = until(node, "second", lambda p: p["status"].get("conditions"), "says why it waits")
    assert [c["message"] for c in found["status"]["conditions"] if c["type"] == "PodScheduled"] == \
        ["position 1 in the queue: waiting for 3 GPUs: 1 of 4 free"]
    node.kubectl("delete", "pod", "first").ok()
    phase(node, "second", "Succeeded")


@pytest.fixture
def own_node(tmp_path):
    daemon = start(tmp_path)
    yield daemon
    if not daemon.running():
        daemon.start()
    close(daemon)


def test_pods_live_through_the_daemons_death(own_node):
    go = own_node.folder / "go"
    short = pod("short", "while ! [ -e /h/go ]; do sleep .05; done; echo over; exit 7",
                spec={"volumes": [{"name": "h", "hostPath": {"path": str(own_node.folder)}}]},
                volumeMounts=[{"name": "h", "mountPath": "/h"}])
    create(own_node, short, pod("long", "sleep 1000", "Always"))
    phase(own_node, "short", "Running")
    before = state(phase(own_node, "long", "Running"))["running"]["startedAt"]
    own_node.kill9()
    go.touch()
    harness.wait(lambda: list(containers(own_node.data).glob("*/exit")), "a container ends meanwhile")
    own_node.start()
    assert state(phase(own_node, "short", "Failed"))["terminated"]["exitCode"] == 7
    assert own_node.kubectl("logs", "short").ok() == "over\n"
    assert state(phase(own_node, "long", "Running"))["running"]["startedAt"] == before
    assert own_node.kubectl("exec", "long", "--", "echo", "alive").ok() == "alive\n"


@pytest.fixture
def cards_node(tmp_path):
    """Two cards of a stand-in for NVIDIA's library, with a CDI file that gives each a device, a file and a variable."""
    library = tmp_path / "libdriver.so"
    library.write_text("driver\n")
    mount = {"hostPath": str(library), "containerPath": "/opt/libdriver.so", "options": ["ro", "bind"]}
    devices = [{"name": str(i), "containerEdits": {
        "deviceNodes": [{"path": f"/dev/card{i}", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}],
        "env": [f"CARD=card{i}"]}} for i in range(2)]
    with podkit.cdi_file(devices, {"mounts": [mount]}):
        daemon = harness.Daemon(tmp_path, "--agent", "on", env={
            "BERTH_SHIM": str(podkit.SHIM), "BERTH_IMAGE_HELPER": str(podkit.HELPER), "FAKE_GPUS": "2",
            "LD_LIBRARY_PATH": str(harness.BUILD / "tests" / "data" / "fake-nvml")})
        yield daemon
        close(daemon)


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl on PATH")
def test_cards_by_cdi_are_never_shared_and_kept_over_a_restart(cards_node):
    node = cards_node
    node.kubectl("create", "namespace", "nobody").ok()
    os.chmod(node.socket_folder, 0o755)
    show = "id -u; echo $CARD; ls /dev | grep card; echo x > /dev/$CARD && cat /opt/libdriver.so; exec sleep 1000"
    card = {"resources": {"limits": {"nvidia.com/gpu": 1}}, "spec": {"terminationGracePeriodSeconds": 0}}
    ns = ["-n", "nobody"]

    def shown(name):
        return harness.wait(lambda: (lambda out: out if "driver" in out else None)(
            node.kubectl("logs", name, *ns).out), f"{name} shows its card").split()
    for name in ("one", "two"):
        as_nobody(node, name, show, **card)
    found = {name: shown(name) for name in ("one", "two")}
    assert sorted(found.values()) == [["65534", f"card{i}", f"card{i}", "driver"] for i in range(2)]
    as_nobody(node, "sly", "echo $CUDA_VISIBLE_DEVICES.", annotations={"berth.dev/gpus": "0:1"})
    harness.wait(lambda: node.kubectl("logs", "sly", *ns).out == ".\n", "who asks for no card gets none")
    node.kubectl("annotate", "pod", "one", *ns, "berth.dev/gpus=0,1", "--overwrite").ok()
    assert node.kubectl("get", "pod", "one", *ns, "-o", "yaml").ok().count('"0,1"') == 0
    node.kill9()
    node.start()
    as_nobody(node, "three", show, **card)
    harness.wait(lambda: "waiting for 1 GPU" in node.kubectl("get", "pod", "three", *ns, "-o", "yaml").out, "it waits")
    node.kubectl("delete", "pod", "two", *ns).ok()
    assert shown("three") == found["two"]
