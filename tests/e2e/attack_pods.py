"""Attacks by the fields of a pod: what would give rights that its owner does not have."""

import hashlib
import json
import os

import harness
import labkit
import podkit
import pytest

import attackkit

pytestmark = podkit.needs


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with attackkit.lab(tmp_path_factory.mktemp("berth")) as running:
        yield running


@pytest.fixture(scope="module")
def homes(lab):
    """ann's folder and bob's, each closed to others."""
    with attackkit.folders(lab.ann, lab.bob) as made:
        yield made


def link(person, path, target):
    """A symbolic link of a person's."""
    path.symlink_to(target)
    os.lchown(path, person.uid, person.uid)
    return path


def host_path(name, path, command, kind="", **mount):
    return podkit.pod(name, command, spec={"volumes": [{"name": "h", "hostPath": {"path": str(path), "type": kind}}]},
                      volumeMounts=[{"name": "h", "mountPath": "/h", **mount}])


REFUSED = {
    "privileged": (dict(), {"securityContext": {"privileged": True}}),
    "capability": (dict(), {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
    "root": (dict(), {"securityContext": {"runAsUser": 0}}),
    "hostpid": ({"hostPID": True}, {}),
    "hostipc": ({"hostIPC": True}, {}),
    "sysctl": ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, {}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_fields_that_give_rights_are_refused(lab, what):
    spec, container = REFUSED[what]
    made = podkit.pod(f"field-{what}", "id", spec=spec, **container)
    answer = lab.ann.try_create(made)
    if answer.code == 201:
        found = lab.until(f"field-{what}", lab.ann.name, lambda p: p["status"].get("phase") == "Failed" or any(
            s.get("state", {}).get("waiting", {}).get("reason", "").endswith("Error") for s in p["status"].get("containerStatuses", [])),
            "does not start")
        assert not any(s.get("containerID") for s in found["status"].get("containerStatuses", []))
    else:
        assert answer.code in (403, 422), answer.body


@pytest.mark.parametrize("path", ["/etc/shadow", "/proc/self/root/etc/shadow", "/proc/1/root/etc/shadow"])
def test_a_host_path_is_opened_with_the_users_rights(lab, path):
    name = "path-" + path.strip("/").replace("/", "-")
    lab.ann.create(host_path(name, path, "cat /h"))
    found = lab.until(name, lab.ann.name, lambda p: p["status"].get("phase") in ("Succeeded", "Failed") or any(
        s.get("state", {}).get("waiting", {}).get("message") for s in p["status"].get("containerStatuses", [])), "is refused or reads nothing")
    if found["status"]["phase"] != "Pending":
        assert "root:" not in lab.output(name, lab.ann.name, ("Succeeded", "Failed"))
    lab.node.request("DELETE", f"/api/v1/namespaces/{lab.ann.name}/pods/{name}")


def reads_nothing(lab, name, secret):
    """A pod that is refused, or fails without having read it."""
    def over(pod):
        return pod["status"].get("phase") in ("Succeeded", "Failed") or any(
            s.get("state", {}).get("waiting", {}).get("message") for s in pod["status"].get("containerStatuses", []))
    found = lab.until(name, lab.ann.name, over, "is refused or fails")
    assert found["status"]["phase"] != "Succeeded"
    if found["status"]["phase"] == "Failed":
        assert secret not in lab.output(name, lab.ann.name, ("Failed",))
    else:
        assert "ermission denied" in str(found["status"])


def test_a_link_leads_where_its_owner_may_go(lab, homes):
    for name, target in (("link-own", homes[0]), ("link-root", "/root"), ("link-bob", homes[1]), ("link-link", homes[0] / "link-bob")):
        lab.ann.create(host_path(name, link(lab.ann, homes[0] / name, target), "ls -a /h && cat /h/file"))
        if name == "link-own":
            assert f"of {lab.ann.name}" in lab.output(name, lab.ann.name)
        else:
            reads_nothing(lab, name, "..")
        lab.delete(name, lab.ann.name)


# ---- folders of training jobs ----

def training(name, field, path, **more):
    return {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {"image": "host", "command": ["sh", "-c", "cat /custom/file || cat /snapshots/file"], "maxGPUs": 0, field: str(path), **more}}


OPTION = {"customDir": "custom_dir", "snapshotsDir": "snapshots_dir"}
WAYS = {"closed": lambda lab, ann, bob: bob,
        "root": lambda lab, ann, bob: "/root",
        "link": lambda lab, ann, bob: link(lab.ann, ann / "to-bob", bob),
        "links": lambda lab, ann, bob: link(lab.ann, ann / "to-link", link(lab.ann, ann / "through", f"../{bob.name}")),
        "above": lambda lab, ann, bob: link(lab.ann, ann / "above", bob.parent) / bob.name,
        "proc": lambda lab, ann, bob: f"/proc/1/root{bob}"}


@pytest.mark.parametrize("field", OPTION)
@pytest.mark.parametrize("way", WAYS)
def test_a_job_gets_no_folder_that_is_closed_to_its_user(lab, field, way):
    with attackkit.folders(lab.ann, lab.bob) as (ann, bob):
        path = WAYS[way](lab, ann, bob)
        for answer in (lab.ann.try_create(training("closed", field, path)),
                       lab.ann.request("POST", "/v1/train", {"job_name": "closed", "command": ["true"], OPTION[field]: str(path)})):
            assert answer.code == 403 and f"--{OPTION[field]} {path}" in answer.body.decode(), answer.body


def test_a_job_gets_the_folders_that_its_user_may_read(lab):
    with attackkit.folders(lab.ann) as (ann,):
        lab.ann.create(training("own", "customDir", link(lab.ann, ann / "link", ann)))
        assert lab.output("own-1", lab.ann.name) == f"of {lab.ann.name}\n"


@pytest.mark.parametrize("field", OPTION)
def test_a_folder_that_becomes_a_link_while_its_job_waits(lab, field):
    """What was looked at when the job came is opened with the user's rights all the same."""
    name = f"swap-{field.lower()}"
    with attackkit.folders(lab.ann, lab.bob) as (ann, bob):
        (ann / "mine").mkdir()
        os.chown(ann / "mine", lab.ann.uid, lab.ann.uid)
        lab.admin(podkit.pod("holder", "sleep 1000", resources={"limits": {"nvidia.com/gpu": "4"}}))
        lab.until("holder", "default", lambda p: p["status"].get("phase") == "Running", "has all cards")
        uid = lab.ann.create(training(name, field, ann / "mine", maxGPUs=1, singleGPU=True))["metadata"]["uid"]
        harness.wait(lambda: lab.node.get(f"/v1/queue/{uid}")["state"] == "Pending", "it waits")
        (ann / "mine").rmdir()
        link(lab.ann, ann / "mine", bob)
        lab.delete("holder", "default")
        harness.wait(lambda: lab.node.request("GET", f"/api/v1/namespaces/{lab.ann.name}/pods/{name}-1").code == 200, "its pod is made")
        reads_nothing(lab, f"{name}-1", f"of {lab.bob.name}")
        lab.node.request("DELETE", f"/apis/berth.dev/v1/namespaces/{lab.ann.name}/trainingjobs/{name}")


def test_no_folder_is_made_where_the_user_may_not(lab):
    with attackkit.folders(lab.ann, lab.bob) as (ann, bob):
        link(lab.ann, ann / "to-bob", bob)
        for path in (bob / "new", ann / "to-bob" / "new", bob.parent / "new"):
            assert lab.ann.try_create(training("makes", "snapshotsDir", path)).code == 403
            made = host_path("makes", path, "ls /h", "DirectoryOrCreate")
            lab.ann.create(made)
            assert "ermission denied" in lab.refused("makes", lab.ann.name)
            lab.delete("makes", lab.ann.name)
        assert not (bob / "new").exists() and not (bob.parent / "new").exists()
        lab.ann.create(training("makes-own", "snapshotsDir", ann / "new"))
        lab.until("makes-own-1", lab.ann.name, lambda p: p["status"].get("phase") == "Failed", "ends")  # it is empty
        assert (ann / "new").stat().st_uid == lab.ann.uid


# ---- parts of volumes ----

@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "/etc"])
@pytest.mark.parametrize("field", ["subPath", "subPathExpr"])
def test_a_part_of_a_volume_is_beneath_it(lab, homes, field, path):
    answer = lab.ann.try_create(host_path("part", homes[0], "ls /h", **{field: path}))
    assert answer.code == 422 and field in answer.json()["message"], answer.body


@pytest.mark.parametrize("value", ["..", "../..", "a/../..", "/etc"])
def test_a_variable_leads_out_of_no_volume(lab, homes, value):
    made = host_path("part-expr", homes[0], "cat /h/shadow /h/file; ls -a /h", subPathExpr="$(WHERE)")
    made["spec"]["containers"][0]["env"] = [{"name": "WHERE", "value": value}]
    lab.ann.create(made)
    assert "subPath" in lab.refused("part-expr", lab.ann.name)
    lab.delete("part-expr", lab.ann.name)


LINKS = {"root": "/", "etc": "/etc", "above": "..", "beside": "../{bob}", "proc": "/proc/self/root", "deep": "in/../../{bob}"}


@pytest.mark.parametrize("target", LINKS)
def test_a_link_leads_out_of_no_volume(lab, target):
    """Not even where its owner could go without: the volume is what was given."""
    name = f"part-{target}"
    with attackkit.folders(lab.ann, lab.bob) as (ann, bob):
        (ann / "in").mkdir()
        link(lab.ann, ann / "link", LINKS[target].format(bob=bob.name))
        for sub in ("link", "link/etc"):
            lab.ann.create(host_path(name, ann, "ls -a /h", subPath=sub))
            assert "subPath" in lab.refused(name, lab.ann.name)
            lab.delete(name, lab.ann.name)


def test_a_link_within_the_volume_is_followed_as_the_user(lab):
    with attackkit.folders(lab.ann, lab.bob) as (ann, bob):
        for name, mode in (("open", 0o755), ("closed", 0o700)):  # root's, in ann's folder
            (ann / name).mkdir()
            (ann / name / "inner").mkdir()
            (ann / name).chmod(mode)
            link(lab.ann, ann / f"to-{name}", f"{name}/inner")
        lab.ann.create(host_path("part-open", ann, "ls -d /h", subPath="to-open"))
        assert lab.output("part-open", lab.ann.name) == "/h\n"
        lab.ann.create(host_path("part-closed", ann, "ls -d /h", subPath="to-closed"))
        assert "ermission denied" in lab.refused("part-closed", lab.ann.name)
        for name in ("part-open", "part-closed"):
            lab.delete(name, lab.ann.name)


# ---- the machine's network ----

def test_the_machines_network_gives_no_rights_over_it(lab):
    """hostNetwork is for everybody: with what the account itself could do there, and no more."""
    low = int(harness.run(["sysctl", "-n", "net.ipv4.ip_unprivileged_port_start"]).ok())
    script = f"""
import os, socket
def tries(what, call):
    try:
        call()
        print(what, "works")
    except OSError as error:
        print(what, error.strerror)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print("caps", int(status["CapEff"], 16) | int(status["CapPrm"], 16) | int(status["CapAmb"], 16), "new", int(status["NoNewPrivs"]))
print("net", os.readlink("/proc/self/ns/net"), "uid", os.getuid())
tries("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300))
tries("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP))
if {low} > 1:
    tries("low", lambda: socket.create_server(("127.0.0.1", {low - 1})))
tries("forward", lambda: open("/proc/sys/net/ipv4/ip_forward", "w"))
tries("name", lambda: socket.sethostname("x"))
"""
    lab.ann.create(podkit.pod("hostnet", ["python3", "-c", script], spec={"hostNetwork": True}))
    said = lab.output("hostnet", lab.ann.name)
    assert f"caps 0 new 1\nnet {os.readlink('/proc/self/ns/net')} uid {lab.ann.uid}\n" in said
    assert "packet " in said and "works" not in said, said
    lab.delete("hostnet", lab.ann.name)


def test_anothers_private_image_is_not_for_others(lab):
    made = podkit.pod("image", "id")
    made["spec"]["containers"][0]["image"] = f"own.localhost/{lab.bob.name}/trainer:latest"
    lab.ann.create(made)
    assert "belongs to another user" in lab.refused("image", lab.ann.name)


@pytest.fixture
def like_names():
    """People whose names become the same in an image's name, or are what another's becomes. Other runs share the machine."""
    top = f"Bth{os.getpid()}"
    changed = f"{top.lower()}-{hashlib.sha256(top.encode()).hexdigest()[:12]}"
    made = []
    try:
        for name in (top, top.lower(), changed, f"{top.lower()}@b", f"{top.lower()}-b"):
            made.append(labkit.Person(name))
        yield made
    finally:
        for person in made:
            person.remove()


def test_people_of_like_names_have_images_of_their_own(lab, like_names, tmp_path):
    names = {}
    for person in like_names:
        (tmp_path / "whose").write_text(person.name)
        harness.run(["tar", "-C", tmp_path, "-cf", person.home / "root.tar", "whose"]).ok()
        os.chown(person.home / "root.tar", person.uid, person.gid)
        person.run(lab.node, "berth", "image", "import", person.home / "root.tar", "trainer").ok()
    for person in like_names:
        listed = json.loads(person.run(lab.node, "berth", "image", "list", "-o", "json").ok())
        found = [i["name"] for i in listed.get("items", listed) if i["name"].startswith("own.localhost/")]
        assert len(found) == 1 and found[0] not in names.values(), (person.name, found)
        names[person.name] = found[0]
    for person in like_names:
        for name in set(names.values()) - {names[person.name]}:
            person.run(lab.node, "berth", "image", "rm", name).fails()
    for person in like_names:
        person.run(lab.node, "berth", "image", "rm", names[person.name]).ok()


@pytest.mark.parametrize("what", ["variables", "arguments"])
def test_text_that_grows_by_references_is_refused(lab, what):
    env = [{"name": "A0", "value": "x" * 1000}]
    extra = {}
    if what == "variables":
        env += [{"name": f"A{i}", "value": f"$(A{i - 1})" * 2} for i in range(1, 60)]
    else:
        env[0]["value"] = "x" * 100000
        extra["args"] = ["$(A0)" * 40] * 200
    name = f"grows-{what}"
    lab.ann.create(podkit.pod(name, "true", env=env, **extra))
    found = lab.until(name, lab.ann.name, lambda p: any("CreateContainer" in json.dumps(s.get("state"))
                      for s in p["status"].get("containerStatuses", [])), "is refused")
    assert "longer than 128 KiB" in json.dumps(found) or "too long with what it refers to" in json.dumps(found)
    lab.node.restart()
    assert lab.node.get("/v1/status")["version"]
    lab.node.request("DELETE", f"/api/v1/namespaces/{lab.ann.name}/pods/{name}")


def test_what_an_admin_makes_for_somebody_runs_as_that_person(lab):
    made = podkit.pod("for-ann", "id -u; id -G")
    made["metadata"]["labels"] = {"user": lab.ann.name}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job-for-ann", "labels": {"user": lab.ann.name}},
           "spec": {"template": {"spec": {**podkit.pod("x", "id -u")["spec"], "restartPolicy": "Never"}}}}
    train = {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": "train-for-ann", "labels": {"user": lab.ann.name}},
             "spec": {"image": "host", "command": ["id", "-u"], "maxGPUs": 0}}
    for doc in (made, job, train):
        lab.node.kubectl("-n", lab.ann.name, "create", "-f", "-", stdin=doc).ok()
    for name in ("for-ann", "job-for-ann", "train-for-ann"):
        path = f"/v1/queue/{lab.ann.name}/{name}"
        row = harness.wait(lambda: (lambda r: r["state"] in ("Succeeded", "Failed") and r)(lab.node.get(path)), f"{name} is over", 60)
        assert row["user"] == lab.ann.name
        log = lab.node.request("GET", path + "/logs").body.decode()
        assert log.split()[0] == str(lab.ann.uid), (name, row, log)


# As 32-bit programs do it, and with a family that has more bits than the kernel looks at.
VSOCK = r"""
import ctypes, mmap, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def result(n):
    return ctypes.get_errno() if n == -1 else "made"
print("plain", result(libc.syscall(41, ctypes.c_long(40), ctypes.c_long(1), ctypes.c_long(0))))
print("wide", result(libc.syscall(41, ctypes.c_long(40 | 1 << 32), ctypes.c_long(1), ctypes.c_long(0))))
print("inet", result(libc.syscall(41, ctypes.c_long(2), ctypes.c_long(1), ctypes.c_long(0))))
page = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, prot=7)  # below 4 GiB
at = ctypes.addressof(ctypes.c_char.from_buffer(page))
page[256:268] = struct.pack("<3i", 40, 1, 0)
page[0:20] = b"\x53\xb8\x66\0\0\0\xbb\1\0\0\0\xb9" + struct.pack("<I", at + 256) + b"\xcd\x80\x5b\xc3"
n = ctypes.CFUNCTYPE(ctypes.c_int)(at)()
print("call", -n if n < 0 else "made")
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="machine code of x86-64")
def test_no_socket_leads_to_the_host_of_this_machine(lab):
    lab.ann.create(podkit.pod("vsock", command=["python3", "-c", VSOCK]))
    said = dict(line.split() for line in lab.output("vsock", lab.ann.name).splitlines())
    assert said == {"plain": "38", "wide": "38", "inet": "made", "call": "1"}
