"""What tests of real pods share: a daemon with its node agent, small pods, and the proof that nothing of
them is left. Needs root, an OCI runtime and kubectl; modules say `pytestmark = podkit.needs`."""

import contextlib
import fcntl
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import harness

SHIM = harness.BUILD / "src" / "shim" / "berth-shim"
HELPER = harness.BUILD / "src" / "image" / "berth-image"


def obstacle():
    if os.geteuid() != 0:
        return "containers need root"
    if not (shutil.which("crun") or shutil.which("runc")):
        return "there is no OCI runtime (apt install crun)"
    if not SHIM.exists():
        return f"{SHIM} is not built"
    if not shutil.which("kubectl"):
        return "there is no kubectl on PATH"
    return None


def start(folder, *flags, env=None):
    gpus = [] if "--gpus" in flags else ["--gpus", "4x1000"]
    return harness.Daemon(folder, "--agent", "on", *gpus, *flags,
                          env={"BERTH_SHIM": str(SHIM), "BERTH_IMAGE_HELPER": str(HELPER), **(env or {})})


@contextlib.contextmanager
def cdi_file(devices, edits=None):
    """A file that describes cards to container engines. Its folder is the machine's: one at a time."""
    folder = pathlib.Path("/var/run/cdi")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "berth-test.json"
    with open(folder / ".berth-test", "w", encoding="utf-8") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "containerEdits": edits or {},
                                    "devices": devices}))
        try:
            yield path
        finally:
            path.unlink()


suffix = harness.suffix


def containers(data):
    return pathlib.Path(f"/run/berth-{suffix(data)}/containers")


def shims(data):
    """{pid: folder} of the monitors of this daemon's containers."""
    found = {}
    for link in glob.glob("/proc/[0-9]*/cwd"):
        try:
            folder = os.readlink(link)
        except OSError:
            continue
        if folder.startswith(f"{containers(data)}/"):
            found[int(link.split("/")[2])] = folder
    return found


def orphans(data):
    """What is left of pods: processes, mounts, namespaces, cgroups, folders."""
    name, data = suffix(data), str(data)
    found = [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
             if f" {data}/" in line or f"/run/berth-{name}/" in line and not re.search("/netns/bv|/mounts/.spare-", line)]
    # Namespaces whose link has no alias wait for a pod, as do spare roots.
    links = json.loads(subprocess.run(["ip", "-j", "link", "show", "master", f"bth{name}"], check=False,
                                      capture_output=True, text=True).stdout or "[]")
    found += [f"link {link['ifname']} of {link['ifalias']}" for link in links if "ifalias" in link]
    for pattern in ("ns/*", "containers/*", "mounts/*", "pods/*"):
        found += glob.glob(f"/run/berth-{name}/{pattern}")
    found += glob.glob(f"{data}/pods/*")
    for pattern in (f"/sys/fs/cgroup/*/berth-{name}/*", f"/sys/fs/cgroup/berth-{name}/*"):
        found += [p for p in glob.glob(pattern) if os.path.isdir(p)]
    found += [f"berth-shim {pid} of {folder}" for pid, folder in shims(data).items()]
    return found


def check_nothing_left(data):
    """Removal of folders and cgroups goes on for a moment after the API has forgotten a pod."""
    try:
        harness.wait(lambda: not orphans(data), "nothing is left of the pods", 10)
    except AssertionError as trouble:
        raise AssertionError("left over:\n" + "\n".join(orphans(data))) from trouble


def processes(daemon):
    """All processes in the containers, by their cgroups."""
    name = suffix(daemon.data)
    return {int(pid) for path in pathlib.Path("/sys/fs/cgroup").glob(f"**/berth-{name}/**/cgroup.procs")
            for pid in path.read_text().split()}


def remove_traces(data, all_cgroups=False):
    name = suffix(data)
    for path in glob.glob(f"/sys/fs/cgroup/**/berth-{name}/**/", recursive=True)[::-1] if all_cgroups else []:
        os.rmdir(path)
    for path in glob.glob(f"/sys/fs/cgroup/*/berth-{name}") + glob.glob(f"/sys/fs/cgroup/berth-{name}"):
        if os.path.isdir(path):
            os.rmdir(path)
    subprocess.run(["ip", "link", "del", f"bth{name}"], check=False, capture_output=True)
    subprocess.run(["nft", "delete", "table", "ip", f"bth{name}"], check=False, capture_output=True)
    subprocess.run(["umount", "-q", "-l", f"/run/berth-{name}"], check=False, capture_output=True)
    shutil.rmtree(f"/run/berth-{name}", ignore_errors=True)


def close(daemon):
    """Ends all pods, sees that nothing stays, ends the daemon."""
    daemon.kubectl("delete", "jobs,pods", "--all", "--all-namespaces", "--grace-period=1", "--wait=false",
                   timeout=60).ok()
    harness.wait(lambda: not daemon.get("/api/v1/pods")["items"], "all pods are gone", 60)
    check_nothing_left(daemon.data)
    daemon.close()
    remove_traces(daemon.data)


def pod(name, command, policy="Never", spec=None, **container):
    command = ["sh", "-c", command] if isinstance(command, str) else command
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": policy, **(spec or {}),
                     "containers": [{"name": "c", "image": "host", "command": command, **container}]}}


def create(node, *objects):
    for one in objects:
        node.kubectl("create", "-f", "-", stdin=json.dumps(one)).ok()


def get(node, name):
    return node.kubectl("get", "pod", name, "-o", "json").json()


def until(node, name, test, what, timeout=20):
    def look():
        found = get(node, name)
        return found if test(found) else None
    return harness.wait(look, f"pod {name}: {what}", timeout)


def phase(node, name, *wanted):
    return until(node, name, lambda p: p["status"].get("phase") in wanted, f"phase {wanted}")


def state(found, kind="state"):
    return found["status"]["containerStatuses"][0][kind]


def as_nobody(node, name, command="id -u; touch /h/file; cat /etc/shadow", annotations=None, **spec):
    """A pod that the user nobody makes, by the socket."""
    made = pod(name, command, **spec)
    made["metadata"]["annotations"] = annotations or {}
    harness.run(["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "curl", "-sf",
                 "--unix-socket", node.socket, "-H", "Content-Type: application/json", "-d",
                 json.dumps(made), "http://berth/api/v1/namespaces/nobody/pods"]).ok()


needs = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
