"""The CVLab guide, each command as printed: pods with claims, variables, ports and a card; entered, read, described,
forwarded, copied, deleted. The lab's image is built here from busybox. Needs root, buildah and busybox; says so and
skips without."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import urllib.request

import pytest
import yaml

import harness
import labkit
import podkit

LACK = labkit.missing("buildah", "busybox")
pytestmark = [podkit.needs, pytest.mark.skipif(LACK is not None, reason=str(LACK)), pytest.mark.plain]

IMAGE = "ic-registry.epfl.ch/cvlab/lis/lab-base:cpu"
CLAIMS = ("cvlabsrc1", "cvlabdata1", "cvlabdata2")

SETUP = [
    {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "cvlab-quota"},
     "spec": {"hard": {"requests.nvidia.com/gpu": "3", "pods": "10"}}},
] + [
    {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": f"pv-{name}"},
     "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}} for name in CLAIMS
]

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: username-example-test
  labels:
    user: {user}
spec:
  restartPolicy: Never # once it finishes, do not restart
  containers:
    - name: base-test
      image: ic-registry.epfl.ch/cvlab/lis/lab-base:cpu
      imagePullPolicy: Always
      command: ["/opt/lab/setup_and_wait_forever.sh"]
      resources:
        limits:
          nvidia.com/gpu: 1 # requesting 1 GPU
      env:
      - name: CLUSTER_USER
        value: "{user}" # set this
      - name: CLUSTER_USER_ID
        value: "{uid}" # set this
      - name: CLUSTER_GROUP_NAME
        value: "CVLAB-unit"
      - name: CLUSTER_GROUP_ID
        value: "{gid}" # as `id` says
      ports:
      - containerPort: 8888
        name: jupyter
      volumeMounts:
        - mountPath: /cvlabsrc1
          name: cvlabsrc1
        - mountPath: /cvlabdata1
          name: cvlabdata1
        - mountPath: /cvlabdata2
          name: cvlabdata2
  volumes:
    - name: cvlabsrc1
      persistentVolumeClaim:
        claimName: pv-cvlabsrc1
    - name: cvlabdata1
      persistentVolumeClaim:
        claimName: pv-cvlabdata1
    - name: cvlabdata2
      persistentVolumeClaim:
        claimName: pv-cvlabdata2
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = podkit.start(tmp_path_factory.mktemp("cvlab"), *labkit.open_socket(None))
    store = tmp_path_factory.mktemp("build")
    labkit.make_base(daemon, store)
    harness.run([harness.BERTH, "build", "-t", IMAGE, harness.ROOT / "images" / "lab-base"],
                env=labkit.build_env(daemon, store), timeout=120).ok()
    yield daemon
    podkit.close(daemon)
    labkit.drop_store(store)


@pytest.fixture(scope="module")
def lis(node):
    person = labkit.Person("berth-t-lis")
    yield person
    person.remove()


@pytest.fixture(scope="module")
def kubectl(node, lis, tmp_path_factory):
    """kubectl with the files that the admins gave: ~/.kube/config, namespace cvlab."""
    config = tmp_path_factory.mktemp("kube") / ".kube" / "config"
    node.kubectl("create", "namespace", "cvlab").ok()
    node.kubectl("annotate", "namespace", "cvlab", f"berth.dev/members={lis.name}").ok()
    for one in SETUP:
        node.kubectl("create", "-n", "cvlab", "-f", "-", stdin=json.dumps(one)).ok()
    node.berth("user", "add", lis.name, "--files", config.parent).ok()
    (config.parent / "user.config").rename(config)
    assert sorted(os.listdir(config.parent)) == ["config", "user.crt", "user.key"]
    node.kubectl("config", "set-context", "--current", "--namespace=cvlab", kubeconfig=config).ok()

    def run(*args, **more):
        return node.kubectl(*args, kubeconfig=config, **more)
    run.config = config
    return run


def running(kubectl, name, wanted="Running"):
    try:
        harness.wait(lambda: kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}").out == wanted,
                     f"{name} is {wanted}")
    except AssertionError as trouble:
        raise AssertionError(kubectl("describe", "pod", name).out) from trouble


@pytest.fixture(scope="module")
def pod(kubectl, lis, tmp_path_factory):
    """kubectl create -f pod_definition_file.yaml"""
    path = tmp_path_factory.mktemp("pod") / "pod_definition_file.yaml"
    path.write_text(POD.format(user=lis.name, uid=lis.uid, gid=lis.gid))
    assert kubectl("create", "-f", path).ok() == "pod/username-example-test created\n"
    running(kubectl, "username-example-test")
    return path


def type_into(kubectl, node, args, lines, until, timeout=20):
    """What a terminal shows when these lines are typed."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
        env = node.program_env(KUBECONFIG=str(kubectl.config), TERM="dumb")
        os.execvpe("kubectl", ["kubectl", *args], env)
    text, deadline, lines = "", time.monotonic() + timeout, list(lines)
    try:
        while until not in text:
            assert time.monotonic() < deadline, f"not shown: {until!r} in {text!r}"
            if select.select([fd], [], [], 0.2)[0]:
                text += os.read(fd, 65536).decode(errors="replace")
            if lines and re.search(r"[$#] $", re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text.rsplit("\n", 1)[-1])):
                os.write(fd, (lines.pop(0) + "\n").encode())
                text += "\n"
    finally:
        os.close(fd)
        os.waitpid(pid, 0)
    return text


def test_get_describe_logs(kubectl, pod, lis):
    assert re.search(r"^username-example-test +1/1 +Running", kubectl("get", "pods").ok(), re.M)
    described = kubectl("describe", "pod", "username-example-test").ok()
    for words in ("pv-cvlabdata2", "nvidia.com/gpu", "8888/TCP", "CLUSTER_USER", "Started container base-test"):
        assert words in described, described
    logs = kubectl("logs", "username-example-test").ok()
    assert "setup: 10_cluster_user.sh" in logs and f"{lis.name} is uid {lis.uid}" in logs


def test_selectors_and_yaml(kubectl, pod, lis):
    for selector in (["-l", f"user={lis.name}"], ["--field-selector=status.phase=Running"]):
        assert kubectl("get", "pods", *selector, "-o", "name").ok() == "pod/username-example-test\n"
    assert not kubectl("get", "pods", "-l", "user=nobody", "-o", "name").ok()
    shown = yaml.safe_load(kubectl("get", "pod", "username-example-test", "-o", "yaml").ok())
    assert shown["spec"]["containers"][0]["image"] == IMAGE


def test_describe_quota(kubectl, pod):
    shown = kubectl("describe", "quota", "--namespace=cvlab").ok()
    assert re.search(r"requests\.nvidia\.com/gpu +1 +3", shown), shown
    assert re.search(r"pods +\d+ +10", shown), shown


def test_exec_with_a_terminal_and_su(kubectl, node, pod, lis):
    """kubectl exec -it pod_name -- /bin/bash, then su youruser -c /bin/bash"""
    shown = type_into(kubectl, node, ["exec", "-it", "username-example-test", "--", "/bin/bash"],
                      [f"su {lis.name} -c /bin/bash", "id -un; touch /cvlabdata2/mine; ls -ln /cvlabdata2",
                       "stty size", "bash -c 'su " + lis.name + " -c id'; echo E''ND"], "END\r\n")
    assert f"{lis.name}\r\n" in shown and re.search(rf"{lis.uid} +\S+ +0 .*mine", shown), shown
    assert "suid" not in shown, shown  # busybox's own su, which only root can use
    assert "33 101\r\n" in shown and shown.count(f"uid={lis.uid}({lis.name})") == 1, shown


def test_files_of_claims_belong_to_the_user_and_stay(kubectl, pod, lis):
    kubectl("exec", "username-example-test", "--", "sh", "-c", "echo data >/cvlabdata1/kept").ok()
    assert kubectl("exec", "username-example-test", "--", "stat", "-c", "%u", "/cvlabdata1/kept").ok() == f"{lis.uid}\n"


def test_cp(kubectl, pod, tmp_path):
    (tmp_path / "there").write_text("copied\n")
    kubectl("cp", tmp_path / "there", "username-example-test:/cvlabdata1/there").ok()
    kubectl("cp", "username-example-test:/cvlabdata1/there", tmp_path / "back").ok()
    assert (tmp_path / "back").read_text() == "copied\n"


def test_names_that_berth_takes(node, pod, lis):
    """By the owner, whose own namespace is another."""
    for word in (["username-example-test"], ["cvlab/username-example-test"], ["cvlab/pod/username-example-test"],
                 ["-n", "cvlab", "pod/username-example-test"]):
        assert "10_cluster_user.sh" in lis.run(node, "berth", "logs", *word).ok()
    assert lis.run(node, "berth", "exec", "cvlab/username-example-test", "id", "-un").ok() == f"{lis.name}\n"
    for word in ("job/username-example-test", "cvlab/nobody"):
        assert lis.run(node, "berth", "logs", word).fails(4).startswith("berth: there is no ")


def small(name, command, lis, **env):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": "Never",
                     "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "pv-cvlabdata2"}},
                                 {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
                     "containers": [{"name": "c", "image": IMAGE, "imagePullPolicy": "Always", "command": command,
                                     "ports": [{"containerPort": 8888, "name": "jupyter"}],
                                     "env": [{"name": k, "value": v} for k, v in
                                             {"CLUSTER_USER": lis.name, "CLUSTER_USER_ID": str(lis.uid), **env}.items()],
                                     "volumeMounts": [{"name": "d", "mountPath": "/cvlabdata2"},
                                                      {"name": "shm", "mountPath": "/dev/shm"}]}]}}


def create(kubectl, made):
    kubectl("create", "-f", "-", stdin=json.dumps(made)).ok()


def test_port_forward_to_a_server(kubectl, node, lis):
    """kubectl port-forward lis-example 8001:8888, the server on loopback as notebooks are."""
    create(kubectl, small("lis-example", ["/opt/lab/setup_and_run_command.sh",
                                          "cd /cvlabdata2 && echo hello >index.html && "
                                          "exec httpd -f -p 127.0.0.1:8888 -h /cvlabdata2"], lis))
    running(kubectl, "lis-example")
    port = labkit.free_port()
    tunnel = subprocess.Popen(["kubectl", "port-forward", "lis-example", f"{port}:8888"], stdout=subprocess.PIPE,
                              text=True, env=node.program_env(KUBECONFIG=str(kubectl.config)))
    try:
        assert "Forwarding from" in tunnel.stdout.readline()

        def ask():
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                    return answer.read()
            except OSError:
                return None
        assert harness.wait(ask, "the server answers") == b"hello\n"
    finally:
        tunnel.terminate()
        tunnel.wait(10)
        tunnel.stdout.close()
    kubectl("delete", "pod", "lis-example").ok()


def test_commands_of_the_image(kubectl, lis):
    create(kubectl, small("runs", ["/opt/lab/setup_and_run_command.sh", "cd /cvlabdata2 && id -u && exit 4"], lis))
    create(kubectl, small("saves", ["/opt/lab/setup_and_run_command.sh", "(sh -c \"trap 'sleep 0.3; echo saved; exit 7' "
                                    "TERM; echo up; while :; do sleep 0.1; done\"); echo never"], lis))
    create(kubectl, small("waits", ["/opt/lab/setup_and_wait.sh"], lis, AUTO_SHUTDOWN_TIME="1"))
    create(kubectl, small("idle", ["/opt/lab/setup_and_wait.sh"], lis, AUTO_SHUTDOWN_TIME="idle", IDLE_LOOK="1",
                          IDLE_SECONDS="2", IDLE_CPU="90"))
    running(kubectl, "runs", "Failed")
    assert kubectl("get", "pod", "runs", "-o",
                   "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}").ok() == "4"
    assert f"\n{lis.uid}\n" in kubectl("logs", "runs").ok()
    harness.wait(lambda: "up\n" in kubectl("logs", "saves").out, "it works")
    kubectl("exec", "saves", "--", "kill", "-TERM", "1")
    running(kubectl, "saves", "Failed")
    said = kubectl("logs", "saves").ok()
    assert "saved\n" in said and "never" not in said, said
    running(kubectl, "waits", "Succeeded")
    assert "the time is up: 1" in kubectl("logs", "waits").ok()
    running(kubectl, "idle", "Succeeded")
    assert "sleeper: idle for 2 s, ending" in kubectl("logs", "idle").ok()
    kubectl("delete", "pod", "runs", "saves", "waits", "idle").ok()


def test_many_processes_that_live_for_a_moment_are_work(tmp_path):
    script = tmp_path / "script"
    script.write_text("(while :; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done | cat; done) &\n"
                      f"{harness.ROOT / 'images/lab-base/opt/bin/sleeper'}\n")
    # First in line: its share of the processor is what is looked at, also where others work.
    with subprocess.Popen(["nice", "-n", "-19", "unshare", "-pf", "--mount-proc", "--kill-child", "sh", script],
                          stdout=subprocess.PIPE, text=True, env={**os.environ, "IDLE_LOOK": "1", "IDLE_SECONDS": "2"}) as process:
        try:
            looks = [process.stdout.readline() for _ in range(4)]
        finally:
            process.kill()
    assert all("idle 0 s" in look for look in looks), looks


def test_a_name_that_is_being_deleted_is_taken(kubectl, lis):
    made = small("busy", ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"], lis)
    made["spec"]["terminationGracePeriodSeconds"] = 3
    create(kubectl, made)
    running(kubectl, "busy")
    kubectl("delete", "pod", "busy", "--wait=false").ok()
    refused = kubectl("create", "-f", "-", stdin=json.dumps(made)).fails(1)
    assert "AlreadyExists" in refused and "object is being deleted" in refused
    harness.wait(lambda: kubectl("get", "pod", "busy").code != 0, "it is gone")


def test_delete_by_file_frees_the_card_and_keeps_the_data(kubectl, pod, node):
    kubectl("delete", "-f", pod).ok()
    assert "No resources found" in kubectl("get", "pods").err
    assert re.search(r"requests\.nvidia\.com/gpu +0 +3", kubectl("describe", "quota", "--namespace=cvlab").ok())
    kubectl("create", "-f", pod).ok()
    running(kubectl, "username-example-test")
    assert kubectl("exec", "username-example-test", "--", "cat", "/cvlabdata1/kept").ok() == "data\n"
    kubectl("delete", "pod", "username-example-test").ok()
