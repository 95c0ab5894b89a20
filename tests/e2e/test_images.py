"""Images: pulled from registries with passwords, built, pushed, imported, read from archives; and registries that
lie or stall. Needs root, skopeo, buildah, docker-registry and busybox; says so and skips without."""

import json
import os
import shutil
import signal
import subprocess

import pytest

import harness
import labkit
import podkit
from podkit import create, phase, state, until

LACK = labkit.missing("skopeo", "buildah", "docker-registry", "htpasswd", "busybox")
pytestmark = [podkit.needs, pytest.mark.skipif(LACK is not None, reason=str(LACK)), pytest.mark.plain]

PASSWORD = "ge:heim + $x"


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    found = labkit.Registry(tmp_path_factory.mktemp("registry") / "r", {"alice": PASSWORD})
    yield found
    found.stop()


@pytest.fixture(scope="module")
def open_registry(tmp_path_factory):
    found = labkit.Registry(tmp_path_factory.mktemp("open") / "r")
    yield found
    found.stop()


@pytest.fixture(scope="module")
def tls_registry(tmp_path_factory):
    found = labkit.Registry(tmp_path_factory.mktemp("tls") / "r", {"alice": PASSWORD}, tls=True)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def fakes():
    found = {kind: labkit.FakeRegistry(kind) for kind in ("lie", "stall", "drip", "slow", "good")}
    yield found
    for fake in found.values():
        fake.stop()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    yield folder
    labkit.drop_store(folder)


@pytest.fixture(scope="module")
def node(tmp_path_factory, registry, open_registry, tls_registry, fakes, store):
    hosts = [registry.host, open_registry.host] + [f.host for f in fakes.values()]
    daemon = podkit.start(tmp_path_factory.mktemp("images"), "--image-stall", "2", "--registries",
                          ",".join([f"{h}=insecure" for h in hosts] +
                                   [f"hub.example=mirror:{open_registry.host}+mirror-insecure",
                                    f"{tls_registry.host}=ca:{tls_registry.ca}"]),
                          *labkit.open_socket(None))
    labkit.make_base(daemon, store)
    yield daemon
    podkit.close(daemon)


@pytest.fixture(scope="module")
def alice(node):
    person = labkit.Person("berth-t-alice")
    node.berth("user", "add", person.name).ok()
    yield person
    person.remove()


def berth(node, store, *args, cwd=None, stdin=None):
    return harness.run([harness.BERTH, *args], env=labkit.build_env(node, store), cwd=cwd, stdin=stdin, timeout=120)


def build(node, store, tmp_path, name, text, *options):
    folder = labkit.write_project(tmp_path / "p", f"FROM {labkit.BASE}\nRUN echo {text} >/hello\n"
                                                  "CMD [\"cat\", \"/hello\"]\n")
    return berth(node, store, "build", "-t", name, *options, folder)


def image_pod(name, image, policy=None, spec=None, command=None):
    made = podkit.pod(name, ["true"], spec=spec)
    container = made["spec"]["containers"][0]
    container["image"] = image
    del container["command"]
    if command:
        container["command"] = command
    if policy:
        container["imagePullPolicy"] = policy
    return made


def waits(node, name, reason, words="", timeout=30):
    found = until(node, name, lambda p: p["status"].get("containerStatuses") and
                  state(p).get("waiting", {}).get("reason") == reason, reason, timeout)
    assert words in state(found)["waiting"].get("message", ""), state(found)
    return found


def pull_fails(node, name, words=""):
    """ErrImagePull is shown for a second only, ImagePullBackOff until the next attempt: either tells."""
    found = until(node, name, lambda p: p["status"].get("containerStatuses") and
                  state(p).get("waiting", {}).get("reason") in ("ErrImagePull", "ImagePullBackOff"), "its pull fails", 30)
    assert words in state(found)["waiting"].get("message", ""), state(found)


def output(node, name):
    phase(node, name, "Succeeded")
    return node.kubectl("logs", name).ok()


@pytest.fixture(scope="module")
def private(node, store, registry, tmp_path_factory):
    """An image in the registry with the password, nowhere else."""
    name = f"{registry.host}/alice/net:v1"
    berth(node, store, "login", registry.host, "-u", "alice", "--password-stdin", stdin=PASSWORD + "\n").ok()
    build(node, store, tmp_path_factory.mktemp("p"), name, "one", "--no-import").ok()
    pushed = berth(node, store, "push", name).ok()
    assert f"pushed {name}" in pushed
    berth(node, store, "logout", registry.host).ok()
    return name


def test_build_shows_layers_and_the_image_runs(node, store, tmp_path):
    built = build(node, store, tmp_path, "hello", "hi")
    assert "built hello" in built.ok() and "layer 1 of 2" in built.err, built.err
    create(node, image_pod("built", "hello"))
    assert output(node, "built") == "hi\n"
    assert "localhost/hello:latest" in node.berth("image", "list").ok()


def test_an_interrupted_build_leaves_no_passwords_and_no_image(node, store, tmp_path):
    """Packed on a disk, not in the memory of $XDG_RUNTIME_DIR."""
    folders = {name: tmp_path / name for name in ("run", "disk", "bin", "project")}
    for folder in folders.values():
        folder.mkdir()
    (folders["project"] / "Dockerfile").write_text("FROM scratch\n")
    fake = folders["bin"] / "buildah"
    fake.write_text("#!/bin/sh\nfor word; do case $word in push) push=1 ;; oci-archive:*) path=${word#oci-archive:} ;; esac; "
                    "done\n[ \"$push\" ] || exit 0\necho packed > \"$path\"\nexec sleep 60\n")
    fake.chmod(0o755)
    env = node.program_env(BERTH_SERVER=f"unix:{node.socket}", XDG_RUNTIME_DIR=str(folders["run"]), TMPDIR=str(folders["disk"]))
    env["PATH"] = f"{folders['bin']}:{env['PATH']}"
    build = subprocess.Popen([harness.BERTH, "build", "-t", "stopped", folders["project"]], env=env, start_new_session=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    harness.wait(lambda: list(folders["disk"].glob("*/image.tar")), "it is being packed")
    assert list(folders["run"].glob("*/auth.json"))
    os.killpg(build.pid, signal.SIGTERM)
    assert build.wait(20) == -signal.SIGTERM
    assert not list(folders["run"].iterdir()) and not list(folders["disk"].iterdir())


def test_failed_build_says_so(node, store, tmp_path):
    folder = labkit.write_project(tmp_path / "bad", f"FROM {labkit.BASE}\nRUN false\n")
    (tmp_path / "run").mkdir()
    refused = harness.run([harness.BERTH, "build", "-t", "bad", folder],
                          env={**labkit.build_env(node, store), "XDG_RUNTIME_DIR": str(tmp_path / "run")}, timeout=120)
    assert "berth: the build of 'bad' failed" in refused.fails(1)
    assert not list((tmp_path / "run").glob("berth-*/auth.json"))


def test_copy_without_target_is_repaired(node, store, tmp_path):
    folder = labkit.write_project(tmp_path / "g", f"FROM {labkit.BASE}\nCOPY ./model.py\nCMD [\"cat\", \"model.py\"]\n",
                                  **{"model.py": "model\n"})
    built = berth(node, store, "build", "-t", "guide", folder)
    assert built.ok() and "has no target" in built.err
    create(node, image_pod("guide", "guide"))
    assert output(node, "guide") == "model\n"


def test_registry_with_a_ca_of_its_own(node, store, tls_registry, tmp_path):
    """Login, push, FROM and a pod's pull all believe the CA of the daemon's settings; nobody else's does."""
    name = f"{tls_registry.host}/alice/secure:1"
    berth(node, store, "login", f"https://{tls_registry.host}/", "-u", "alice", "--password-stdin", stdin=PASSWORD).ok()
    build(node, store, tmp_path, name, "secure", "--no-import").ok()
    berth(node, store, "push", name).ok()
    harness.run(["buildah", f"--root={store}", f"--runroot=/run/berth-build-{os.geteuid()}", "rmi", "-f", name]).ok()
    folder = labkit.write_project(tmp_path / "from", f"FROM {name}\nCMD [\"cat\", \"/hello\"]\n")
    assert "layer sha256:" in berth(node, store, "build", "-t", "from-tls", "--no-import", folder).err
    node.berth("apply", "-f", "-", stdin=image_pod("secure", name, "Always")).ok()
    assert output(node, "secure") == "secure\n"
    berth(node, store, "logout", tls_registry.host).ok()
    other = name.replace("127.0.0.1", "localhost")
    assert "certificate" in node.berth("image", "pull", other).fails(1)


def test_failures_are_one_sentence_that_says_what_to_do(node, store, registry, open_registry, tmp_path):
    berth(node, store, "logout", registry.host)
    build(node, store, tmp_path, "said", "said", "--no-import").ok()

    def last(code, *args, stdin=None):
        return berth(node, store, *args, stdin=stdin).fails(code).splitlines()[-1]
    assert last(5, "push", "said", f"{registry.host}/x:1") == \
        f"berth: 'said' was not pushed to '{registry.host}/x:1': registry {registry.host} wants another name or " \
        f"password: berth login {registry.host}"
    assert last(1, "push", "said", "127.0.0.1:1/x:1").endswith("registry 127.0.0.1:1 cannot be reached: connection refused")
    assert last(4, "push", "nothing", f"{registry.host}/x:1").endswith("there is no such image here; berth build makes it")
    login = ["login", "-u", "alice", "--password-stdin"]
    assert last(5, *login, registry.host, stdin="wrong\n").endswith(
        f"registry {registry.host} does not take that name and password")
    assert "connection refused" in last(1, *login, "127.0.0.1:1", stdin="x\n")
    folder = labkit.write_project(tmp_path / "none", f"FROM {open_registry.host}/no/such\n")
    assert last(4, "build", "-t", "x", folder) == \
        f"berth: the build of 'x' failed: registry {open_registry.host} has no such image"


def test_a_terminal_has_a_line_for_each_layer(node, store, open_registry, tmp_path):
    name = f"{open_registry.host}/shown:1"
    build(node, store, tmp_path, name, "shown", "--no-import").ok()
    code, out = labkit.on_terminal([harness.BERTH, "push", name], labkit.build_env(node, store))
    assert code == 0 and out.count("Copying blob") >= 2 and "\x1b[" in out, out
    code, out = labkit.on_terminal([harness.BERTH, "image", "pull", name], labkit.build_env(node, store))
    assert code == 0 and "layer 2 of 2" in out and out.count(": done\x1b[K\r\n") + out.count("already here") == 2, out
    assert "\rlayer 2 of 2" in out and "downloading" in out
    code, out = labkit.on_terminal([harness.BERTH, "push", name, "127.0.0.1:1/x"], labkit.build_env(node, store))
    assert code == 1 and "Error:" not in out and out.rstrip().endswith("connection refused"), out


def test_without_password_the_pull_fails_then_backs_off(node, private):
    create(node, image_pod("nopassword", private))
    waits(node, "nopassword", "ImagePullBackOff", "nauthorized")
    events = node.kubectl("get", "events", "--field-selector", "involvedObject.name=nopassword", "-o", "json").json()["items"]
    assert {"Pulling", "Failed", "BackOff"} <= {e["reason"] for e in events}
    assert {"Error: ErrImagePull", "Error: ImagePullBackOff"} <= {e["message"] for e in events}


def secret(node, name, registry, password):
    node.kubectl("create", "secret", "docker-registry", name, f"--docker-server={registry.host}",
                 "--docker-username=alice", f"--docker-password={password}").ok()


def test_pull_secrets_of_the_pod(node, private, registry):
    secret(node, "wrong", registry, "no")
    secret(node, "right", registry, PASSWORD)
    create(node, image_pod("secret", private, spec={"imagePullSecrets": [{"name": "wrong"}, {"name": "right"}]}))
    assert output(node, "secret") == "one\n"
    events = node.kubectl("get", "events", "--field-selector", "involvedObject.name=secret", "-o",
                          "jsonpath={.items[*].message}").ok()
    assert "layer 2 of 2" in events and "Successfully pulled" in events
    found = podkit.get(node, "secret")["status"]["containerStatuses"][0]["imageID"]
    assert found.startswith(private.rsplit(":", 1)[0] + "@sha256:")
    create(node, image_pod("pinned", found, spec={"imagePullSecrets": [{"name": "right"}]}))
    assert output(node, "pinned") == "one\n"


def test_pull_secrets_of_the_service_account(node, private, registry):
    secret(node, "of-account", registry, PASSWORD)
    node.kubectl("create", "serviceaccount", "puller").ok()
    node.kubectl("patch", "serviceaccount", "puller", "-p",
                 json.dumps({"imagePullSecrets": [{"name": "of-account"}]})).ok()
    create(node, image_pod("account", private, "Always", spec={"serviceAccountName": "puller"}))
    assert output(node, "account") == "one\n"


def test_login_is_for_ones_own_pods(node, private, registry, alice):
    mine = ["-n", alice.name]
    assert "knows the password" in alice.run(node, "berth", "login", registry.host, "-u", "alice", "--password-stdin",
                                             stdin=PASSWORD).ok()
    pod = image_pod("mine", private, "Always")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "64Mi"}}
    alice.run(node, "berth", "apply", "-f", "-", stdin=json.dumps(pod)).ok()
    harness.wait(lambda: node.kubectl("get", "pod", "mine", *mine, "-o", "jsonpath={.status.phase}").ok() == "Succeeded",
                 "alice's pod runs")
    create(node, image_pod("theirs", private, "Always"))  # root has logged out
    pull_fails(node, "theirs")
    folder = node.data / "images" / "logins"
    kept = folder / f"{alice.name}.json"
    assert folder.stat().st_mode & 0o777 == 0o700 and kept.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in node.log()
    listed = node.request("GET", "/v1/logins?secrets=1").json()
    assert alice.name not in json.dumps(listed)
    assert alice.run(node, "berth", "logout", registry.host).ok()
    assert json.loads(kept.read_text())["auths"] == {}


def test_policies(node, store, open_registry, tmp_path):
    name = f"{open_registry.host}/net:1"
    create(node, image_pod("never", name, "Never"))
    waits(node, "never", "ErrImageNeverPull")
    build(node, store, tmp_path, name, "first", "--no-import").ok()
    berth(node, store, "push", name).ok()
    create(node, image_pod("present1", name, "IfNotPresent"))
    assert output(node, "present1") == "first\n"
    build(node, store, tmp_path, name, "second", "--no-import").ok()
    berth(node, store, "push", name).ok()
    create(node, image_pod("present2", name, "IfNotPresent"))
    assert output(node, "present2") == "first\n"
    create(node, image_pod("always", name, "Always"))
    assert output(node, "always") == "second\n"
    open_registry.stop()
    try:
        create(node, image_pod("off1", name, "IfNotPresent"), image_pod("off2", name, "Always"))
        assert output(node, "off1") == "second\n"
        pull_fails(node, "off2", "refused")
    finally:
        open_registry.start()


def test_mirror_is_asked_first(node, store, open_registry, tmp_path):
    name = f"{open_registry.host}/sub/mirrored:1"
    build(node, store, tmp_path, name, "mirrored", "--no-import").ok()
    berth(node, store, "push", name).ok()
    create(node, image_pod("mirrored", "hub.example/sub/mirrored:1"))
    assert output(node, "mirrored") == "mirrored\n"


def test_a_registry_that_lies_or_stalls_fails_that_pod_only(node, fakes):
    create(node, image_pod("stall", fakes["stall"].image), image_pod("lie", fakes["lie"].image))
    create(node, podkit.pod("other", "echo fine"))
    assert output(node, "other") == "fine\n"
    pull_fails(node, "lie")
    pull_fails(node, "stall")
    messages = node.kubectl("get", "events", "-o", "jsonpath={.items[*].message}").ok()
    assert "digest" in messages and "nothing" in messages, messages


def test_registries_that_drip_hold_up_nobody(node, fakes):
    """Five pulls from each take no place of the others', and keep the layer they pretend to have from nobody."""
    env = node.program_env(BERTH_SERVER=f"unix:{node.socket}")
    waiting = [subprocess.Popen([harness.BERTH, "image", "pull", f"{fakes[kind].host}/x:{tag}"], env=env, text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
               for kind in ("slow", "drip") for tag in range(5)]
    try:
        harness.wait(lambda: list((node.data / "images" / "staging").glob("*/*.blob")), "the layer is being fetched")
        assert "is here" in node.berth("image", "pull", fakes["good"].image, timeout=20).ok()
        assert "stalled" in waiting[5].communicate(timeout=30)[1]
    finally:
        for process in waiting:
            process.kill()
            process.communicate()


def test_import_list_remove(node, store, tmp_path):
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin" / "cat")
    (root / "hello").write_text("from a tar\n")
    harness.run(["tar", "-C", root, "-czf", tmp_path / "root.tar.gz", "."]).ok()
    taken = node.berth("image", "import", tmp_path / "root.tar.gz", "plain:1")
    assert taken.ok() and "layer 1 of 1" in taken.err
    create(node, image_pod("plain", "plain:1", command=["/bin/cat", "/hello"]))
    assert output(node, "plain") == "from a tar\n"
    node.kubectl("delete", "pod", "plain").ok()
    node.berth("image", "rm", "plain:1").ok()
    assert "plain" not in node.berth("image", "list").ok()
    assert node.berth("image", "rm", "plain:1").fails(4)
    assert node.berth("image", "import", tmp_path / "none.tar", "x").fails(4)
    (tmp_path / "noise").write_bytes(os.urandom(5000))
    assert node.berth("image", "import", tmp_path / "noise", "x").fails(1)
    assert not list((node.data / "incoming").iterdir())
    assert "removed" in node.berth("image", "gc").ok()


def test_archives_are_read_with_the_rights_of_the_user(node, store, alice, tmp_path):
    folder = alice.home / "images"
    folder.mkdir()
    build(node, store, tmp_path, "forfile", "archived", "--no-import").ok()
    buildah = ["buildah", f"--root={store}", f"--runroot=/run/berth-build-{os.geteuid()}"]
    for kind, path in (("oci-archive", "a.tar"), ("docker-archive", "d.tar"), ("oci", "layout")):
        harness.run([*buildah, "push", "docker.io/library/forfile:latest", f"{kind}:{folder / path}"]).ok()
    harness.run(["chown", "-R", f"{alice.uid}", folder]).ok()
    secret_file = tmp_path / "secret.tar"
    shutil.copy(folder / "a.tar", secret_file)
    secret_file.chmod(0o600)
    images = {"oa": f"oci-archive:{folder}/a.tar", "da": f"docker-archive:{folder}/d.tar", "ol": f"oci:{folder}/layout"}
    for name, image in images.items():
        pod = image_pod(name, image)
        pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100m", "memory": "64Mi"}}
        alice.run(node, "berth", "apply", "-f", "-", stdin=json.dumps(pod)).ok()
        harness.wait(lambda: node.kubectl("get", "pod", name, "-n", alice.name, "-o",
                                          "jsonpath={.status.phase}").ok() == "Succeeded", f"{image} runs")
        assert node.kubectl("logs", name, "-n", alice.name).ok() == "archived\n"
        node.kubectl("delete", "pod", name, "-n", alice.name).ok()
    pod = image_pod("notmine", f"oci-archive:{secret_file}")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "100m", "memory": "64Mi"}}
    alice.run(node, "berth", "apply", "-f", "-", stdin=json.dumps(pod)).ok()
    harness.wait(lambda: "ermission denied" in node.kubectl("describe", "pod", "notmine", "-n", alice.name).ok(),
                 "the archive of somebody else is refused")
    create(node, image_pod("admins", f"oci-archive:{secret_file}"))
    assert output(node, "admins") == "archived\n"


def test_builds_of_users_are_theirs_alone(node, store, alice, tmp_path):
    """alice's `python` must not become everybody's."""
    folder = labkit.write_project(alice.home / "own", "FROM scratch\nCOPY busybox /bin/sh\n"
                                                      "CMD [\"/bin/sh\", \"-c\", \"echo alices\"]\n")
    shutil.copy(shutil.which("busybox"), folder / "busybox")
    os.chown(folder, alice.uid, alice.gid)
    alice.run(node, "berth", "build", "-t", "hello", folder).ok()
    pod = image_pod("hers", "hello")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "64Mi"}}
    alice.run(node, "berth", "apply", "-f", "-", stdin=json.dumps(pod)).ok()
    harness.wait(lambda: node.kubectl("get", "pod", "hers", "-n", alice.name, "-o",
                                      "jsonpath={.status.phase}").ok() == "Succeeded", "alice's build runs")
    assert node.kubectl("logs", "hers", "-n", alice.name).ok() == "alices\n"
    create(node, image_pod("admins-hello", "hello"))
    assert output(node, "admins-hello") == "hi\n"
    create(node, image_pod("admins-hers", f"own.localhost/{alice.name}/hello"))
    assert output(node, "admins-hers") == "alices\n"
    pod["metadata"]["name"] = "anothers"
    pod["spec"]["containers"][0]["image"] = "own.localhost/somebody/hello"
    alice.run(node, "berth", "apply", "-f", "-", stdin=json.dumps(pod)).ok()
    harness.wait(lambda: "belongs to another user" in node.kubectl(
        "get", "pod", "anothers", "-n", alice.name, "-o",
        "jsonpath={.status.containerStatuses[0].state.waiting.message}").ok(), "somebody's build is refused to alice")
    node.kubectl("delete", "pod", "hers", "anothers", "-n", alice.name).ok()
    alice.run(node, "berth", "image", "rm", "hello").ok()
    assert "only admins" in alice.run(node, "berth", "image", "rm", "localhost/hello").fails(5)
    assert alice.run(node, "berth", "image", "gc").fails(5)


def test_the_stop_signal_of_an_image_is_known_after_a_restart(node, store, tmp_path):
    folder = labkit.write_project(tmp_path / "p", f"FROM {labkit.BASE}\nSTOPSIGNAL SIGUSR1\n")
    berth(node, store, "build", "-t", "usr1:1", folder).ok()
    create(node, image_pod("usr1", "usr1:1", spec={"terminationGracePeriodSeconds": 60}, command=[
        "sh", "-c", "trap 'exit 0' USR1; echo up; while :; do sleep .1; done"]))
    harness.wait(lambda: node.kubectl("logs", "usr1").out == "up\n", "the trap is set")
    node.kill9()
    node.start()
    node.kubectl("delete", "pod", "usr1", timeout=20).ok()
