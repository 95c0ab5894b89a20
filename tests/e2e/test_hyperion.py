"""The Hyperion guide: a project begun, built, submitted, replaced, followed; data brought there and back; TERM before
the end. Needs root, buildah and busybox; says so and skips without."""

import os
import pathlib
import signal
import subprocess
import time

import pytest

import harness
import labkit
import podkit

LACK = labkit.missing("skopeo", "buildah", "docker-registry", "busybox")
pytestmark = [podkit.needs, pytest.mark.skipif(LACK is not None, reason=str(LACK)), pytest.mark.plain]

# Section "Creating a Kubernetes deployment" as printed, with a folder and an image of the test.
GUIDE = """\
---
apiVersion: v1
kind: Job
metadata:
  name: awesome-project-trainer  # the name of your job
spec:
  template:
    spec:
      volumes:
      - hostPath:
          path: {home}/scratch/awesome-project/data  # the folder you want to mount into the container
          type: Directory
        name: data
      containers:
      - name: awesome-project-trainer  # give the image in your job a name, can be anything
        image: 0123456789012.dkr.ecr.eu-west-1.amazonaws.com/awesome-project-trainer:latest
        resources:
          limits:
            nvidia.com/gpu: 1  # request a single GPU
            memory: "4096Mi"  # the maximum amount of RAM your application can/will use
            cpu: "2"  # the maximum amount of CPU's your application can/will use
          request:
            memory: "1024Mi"  # the expected amount of memory that you use
            cpu: "1"  # the expected amount of CPU that you use
        volumeMounts:
        - mountPath: /data  # mount the host folder specified above to /data
          name: data
---
"""


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    found = labkit.Registry(tmp_path_factory.mktemp("registry") / "r")
    yield found
    found.stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory, registry):
    daemon = podkit.start(tmp_path_factory.mktemp("hyperion"), "--registries", f"{registry.host}=insecure",
                          *labkit.open_socket(None))
    yield daemon
    podkit.close(daemon)


@pytest.fixture(scope="module")
def bob(node):
    person = labkit.Person("berth-t-bob")
    node.berth("user", "add", person.name).ok()
    person.run(node, harness.ROOT / "images" / "make-base").ok()
    yield person
    person.remove()


def write(person, path, text, mode=0o644):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    for made in (path, path.parent):
        os.chown(made, person.uid, person.gid)
    return path


@pytest.fixture(scope="module")
def project(node, bob):
    folder = bob.home / "awesome"
    write(bob, folder / "model.py", "mine\n")
    assert "lower-case letters" in bob.run(node, "berth", "init", "Awesome_1", cwd=folder).fails(2)
    made = bob.run(node, "berth", "init", "awesome", "--from", labkit.BASE, cwd=folder).ok()
    assert "model.py (kept)" in made and (folder / "model.py").read_text() == "mine\n"
    assert "nothing was written" in bob.run(node, "berth", "init", "awesome", cwd=folder).fails(6)
    return folder


def job(node, bob, name="awesome"):
    return node.kubectl("get", "job", name, "-n", bob.name, "-o", "json").json()


def test_submit_builds_runs_and_shows_the_log(node, bob, project):
    write(bob, project / "main.sh", "echo training; echo out >/data/result; id -u\n", 0o755)
    shown = bob.run(node, "berth", "submit", cwd=project).ok()
    for words in ("== build awesome", "job.batch/awesome created", "training\n", f"\n{bob.uid}\n",
                  "== job awesome: Complete"):
        assert words in shown, shown
    result = bob.home / "result"
    assert result.read_text() == "out\n" and result.stat().st_uid == bob.uid


def test_submit_replaces_a_finished_job_and_tells_a_failed_one(node, bob, project):
    before = job(node, bob)["metadata"]["uid"]
    write(bob, project / "main.sh", "echo other; exit 3\n", 0o755)
    shown = bob.run(node, "berth", "submit", cwd=project)
    assert shown.code == 3 and "== replace the earlier job (Complete)" in shown.out and "other\n" in shown.out
    assert "== job awesome: Failed: container awesome ended with status 3 (Error)" in shown.out and job(node, bob)["metadata"]["uid"] != before


def test_ctrl_c_detaches_and_a_running_job_is_not_replaced_unasked(node, bob, project):
    write(bob, project / "main.sh", "trap 'exit 0' TERM\necho here; while :; do sleep 0.1; done\n", 0o755)
    process = subprocess.Popen([str(harness.BERTH), "submit"], cwd=project, user=bob.uid, group=bob.gid,
                               extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={"HOME": str(bob.home), "PATH": os.environ["PATH"],
                                    "BERTH_SERVER": f"unix:{node.socket}"})
    for line in process.stdout:
        if line == "here\n":
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 0 and "goes on without you" in err
    assert job(node, bob)["status"]["active"] == 1
    assert "still running: --force" in bob.run(node, "berth", "submit", cwd=project).fails(6)
    write(bob, project / "main.sh", "echo third\n", 0o755)
    assert "third\n" in bob.run(node, "berth", "submit", "--force", cwd=project).ok()


def test_submit_stays_with_the_job_over_a_restart_of_the_daemon(node, bob, project):
    write(bob, project / "main.sh", "echo before; until [ -e /data/go ]; do sleep 0.05; done; echo after; exit 7\n", 0o755)
    with subprocess.Popen([str(harness.BERTH), "submit"], cwd=project, user=bob.uid, group=bob.gid, extra_groups=[],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env={"HOME": str(bob.home), "PATH": os.environ["PATH"],
                               "BERTH_SERVER": f"unix:{node.socket}"}) as process:
        before = ""
        while not before.endswith("before\n"):
            line = process.stdout.readline()
            assert line, f"it ended after {before!r}"
            before += line
        node.kill9()
        node.start()
        write(bob, bob.home / "go", "")
        rest, _ = process.communicate(timeout=30)
    assert process.returncode == 7 and rest.startswith("after\n"), rest
    assert "Failed: container awesome ended with status 7" in rest


def test_submit_with_a_registry(node, bob, project, registry):
    write(bob, project / "main.sh", "echo pulled\n", 0o755)
    shown = bob.run(node, "berth", "submit", "--registry", registry.host, cwd=project).ok()
    image = f"{registry.host}/{bob.name}/awesome:latest"
    assert f"== push {image}" in shown and "pulled\n" in shown
    assert job(node, bob)["spec"]["template"]["spec"]["containers"][0]["image"] == image


def test_the_guide_as_printed(node, bob):
    """Not valid Kubernetes, and its Dockerfile neither; both work, with warnings."""
    folder = bob.home / "guide"
    write(bob, folder / "Dockerfile", f"FROM {labkit.BASE}\n\nCOPY ./model.py\nCMD [\"sh\", \"model.py\"]\n")
    write(bob, folder / "model.py", "ls /data\n")
    write(bob, folder / "deployment.yaml", GUIDE.format(home=bob.home))
    bob.run(node, "berth", "data", "put", folder / "model.py", "scratch:awesome-project/data/").ok()
    shown = bob.run(node, "berth", "submit", cwd=folder)
    assert "== job awesome-project-trainer: Complete" in shown.ok() and "model.py\n" in shown.out
    for words in ("apiVersion", "request", "restartPolicy", "no target"):
        assert words in shown.err, shown.err
    described = node.kubectl("describe", "jobs/awesome-project-trainer", "-n", bob.name).ok()
    assert "1 Succeeded" in described


def term_job(name, command, grace):
    made = podkit.pod(name, command, spec={"terminationGracePeriodSeconds": grace})
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": {"spec": made["spec"]}}}


def test_term_lets_a_script_save(node, tmp_path):
    saved = tmp_path / "saved"
    made = term_job("saves", f"trap 'echo model >/out/{saved.name}; exit 0' TERM; echo ready; "
                             "while :; do sleep 0.1; done", 30)
    spec = made["spec"]["template"]["spec"]
    spec["volumes"] = [{"name": "out", "hostPath": {"path": str(tmp_path), "type": "Directory"}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "out", "mountPath": "/out"}]
    podkit.create(node, made)
    harness.wait(lambda: "ready" in node.kubectl("logs", "job/saves").out, "it runs")
    began = time.monotonic()
    node.kubectl("delete", "job", "saves").ok()
    harness.wait(lambda: not node.kubectl("get", "pods", "-l", "job-name=saves", "-o", "name").ok(), "it is gone")
    assert saved.read_text() == "model\n" and time.monotonic() - began < 10


def test_a_script_that_ignores_term_is_killed_after_the_grace(node):
    podkit.create(node, term_job("ignores", "trap '' TERM; echo ready; while :; do sleep 0.1; done", 2))
    harness.wait(lambda: "ready" in node.kubectl("logs", "job/ignores").out, "it runs")
    began = time.monotonic()
    node.kubectl("delete", "job", "ignores", "--wait=false").ok()
    harness.wait(lambda: not node.kubectl("get", "pods", "-l", "job-name=ignores", "-o", "name").ok(), "it is gone")
    assert 1.5 < time.monotonic() - began < 10


def test_data_goes_there_and_back(node, bob, tmp_path):
    source = bob.home / "source"
    (source / "sub").mkdir(parents=True)
    big = os.urandom(3_000_000)
    (source / "big.bin").write_bytes(big)
    (source / "sub" / "a b").write_text("ümlaut\n")
    (source / "empty").touch()
    harness.run(["chown", "-R", bob.name, source]).ok()
    put = bob.run(node, "berth", "data", "put", source, "scratch:set")
    assert "3 files, 3.0 MB moved" in put.ok() and "big.bin" in put.err
    there = bob.home / "scratch" / "set"
    assert (there / "big.bin").read_bytes() == big and (there / "big.bin").stat().st_uid == bob.uid
    again = bob.run(node, "berth", "data", "put", source, "scratch:set/").ok()
    assert "3 files, 3.0 MB moved" in again  # into the folder that is there now
    assert (there / "source" / "sub" / "a b").read_text() == "ümlaut\n"
    assert "0 files, 0 B moved; 3 were there already" in bob.run(node, "berth", "data", "put", source,
                                                                     "scratch:set/").ok()
    listed = bob.run(node, "berth", "data", "ls", "-r", "scratch:set/source").ok()
    assert "3000000" in listed and "sub/a b" in listed
    back = bob.home / "back"
    assert "3 files" in bob.run(node, "berth", "data", "get", "scratch:set/source", back).ok()
    harness.run(["diff", "-r", source, back]).ok()


def test_data_goes_on_where_it_stopped(node, bob):
    """Half a file from an earlier try: only the rest moves. A half that differs is not believed."""
    source = bob.home / "source" / "big.bin"
    half = source.read_bytes()[:2_000_000]
    place = bob.home / "resume"
    place.mkdir()
    os.chown(place, bob.uid, bob.gid)
    for number, part, moved in ((1, half, "1.0 MB"), (2, b"x" * 1000, "3.0 MB")):
        name = f"r{number}.bin"
        path = place / f".{name}.berth-part"
        path.write_bytes(part)
        os.chown(path, bob.uid, bob.gid)
        assert f"1 files, {moved} moved" in bob.run(node, "berth", "data", "put", source, f"resume/{name}").ok()
        assert (place / name).read_bytes() == source.read_bytes() and not path.exists()
    local = bob.home / ".r3.bin.berth-part"
    local.write_bytes(half)
    os.chown(local, bob.uid, bob.gid)
    assert "1 files, 1.0 MB moved" in bob.run(node, "berth", "data", "get", "resume/r1.bin", "r3.bin").ok()
    assert (bob.home / "r3.bin").read_bytes() == source.read_bytes()


@pytest.mark.plain
def test_data_of_many_files_takes_no_more_memory(node, bob):
    """What is said about a file is forgotten with it."""
    source = bob.home / "many"
    source.mkdir()
    for i in range(2000):
        (source / f"{i:060}").touch()
    harness.run(["chown", "-R", bob.name, source]).ok()

    # Between fork and exec a process counts as large as its parent: a small one starts it, and says what it took.
    start = ("import os, resource, sys; assert os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:]) == 0; "
             "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")

    def peak(*words):
        return int(subprocess.run(["/usr/bin/python3", "-S", "-E", "-c", start, str(harness.BERTH), "data", *words],
                                  user=bob.uid, group=bob.gid, extra_groups=[], text=True, check=True,
                                  env={"BERTH_SERVER": f"unix:{node.socket}"}, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL).stdout.split()[-1])
    one = peak("put", str(source / f"{0:060}"), "scratch:one")
    assert peak("put", str(source), "scratch:many") - one < 2048  # kB: one for each is too much


def test_data_goes_on_after_a_kill_of_either_side(node, bob):
    """In the middle of a put: first the client is killed, then the daemon."""
    source = bob.home / "large.bin"
    with open(source, "wb") as file:
        file.truncate(400_000_000)
    part = bob.home / "scratch" / ".large.bin.berth-part"

    def begin(more_than):
        process = subprocess.Popen([str(harness.BERTH), "data", "put", str(source), "scratch:large.bin"], user=bob.uid,
                                   group=bob.gid, extra_groups=[], env={"BERTH_SERVER": f"unix:{node.socket}"},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        harness.wait(lambda: part.exists() and part.stat().st_size > more_than, "some of it has come", pause=0.001)
        return process
    first = begin(0)
    first.kill()
    first.communicate()
    second = begin(part.stat().st_size)
    node.kill9()
    assert "run it again to go on where it stopped" in second.communicate(timeout=20)[1] and second.returncode == 1
    node.start()
    last = bob.run(node, "berth", "data", "put", source, "scratch:large.bin")
    assert "went on from an earlier try" in last.err and last.ok()
    assert (bob.home / "scratch" / "large.bin").stat().st_size == 400_000_000 and not part.exists()


def test_data_that_cannot_be_moved_is_left_out_and_told(node, bob):
    source = bob.home / "odd"
    (source / "sub").mkdir(parents=True)
    for name, target in (("round", "."), ("nowhere", "none"), ("file-link", "sub/f")):
        (source / name).symlink_to(target)
    (source / "sub" / "f").write_text("f")
    (source / "two\nlines").write_text("l")
    os.mkfifo(source / "pipe")
    (source / "root's").write_text("secret")
    (source / "root's").chmod(0o600)
    with open(os.fsencode(source) + b"/bad\xff", "w"):
        pass
    harness.run(["chown", "-hR", bob.name, source]).ok()
    os.chown(source / "root's", 0, 0)
    put = bob.run(node, "berth", "data", "put", source, "odd2")
    assert put.code == 1 and "3 files, 3 B moved; 5 were left out" in put.out, put.out
    for words in ("link to a folder: odd/round", "No such file or directory: odd/nowhere", "no file: odd/pipe",
                  "Permission denied: odd/root's", "no UTF-8: odd/bad?"):
        assert words.replace("odd/", f"{source}/") in put.err, put.err
    (bob.home / "odd2" / "again").symlink_to(".")
    get = bob.run(node, "berth", "data", "get", "odd2", "odd3")
    assert get.code == 1 and "3 files, 3 B moved; 1 were left out" in get.out
    assert (bob.home / "odd3" / "two\nlines").read_text() == "l"
    listed = bob.run(node, "berth", "data", "ls", "-r", "odd2").ok()
    assert "two?lines" in listed and "again@" in listed
    assert "two?lines" in bob.run(node, "berth", "data", "ls", "odd2/two\nlines").ok()


def test_data_that_does_not_fit_is_refused_at_once(node, bob, tmp_path):
    disk = bob.home / "disk"
    disk.mkdir()
    harness.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "none", disk]).ok()
    try:
        source = bob.home / "source" / "big.bin"
        assert "does not fit: 3 MB are to come, 1 MB are free" in bob.run(node, "berth", "data", "put", source,
                                                                           "disk/").fails(1)
        assert not list(disk.iterdir())
    finally:
        harness.run(["umount", "-l", disk]).ok()


def test_data_keeps_to_the_rights_of_the_user(node, bob, tmp_path):
    assert "ermission denied" in bob.run(node, "berth", "data", "get", "/etc/shadow").fails(1)
    assert "ermission denied" in bob.run(node, "berth", "data", "put", bob.home / "source" / "empty", "/etc/x").fails(1)
    assert "ermission denied" in bob.run(node, "berth", "data", "ls", "/root").fails(1)
    assert "there is no" in bob.run(node, "berth", "data", "get", "nothing").fails(4)
    assert bob.run(node, "berth", "data", "put", "nothing").fails(4)
