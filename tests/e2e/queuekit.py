"""What tests of the queue share: a daemon with declared cards, tiny training jobs that make the library's calls
by themselves, and what the queue says of them."""

import glob
import json
import subprocess

import harness
import podkit

CARDS = "2x8192,2x24576"
API = "/apis/berth.dev/v1/namespaces/{}/trainingjobs"

# Asks at the start of an epoch, works, says that the epoch is done; a daemon that is away is asked again.
SCRIPT = """
import json, os, time, urllib.request
url, job, token = os.environ["BERTH_URL"], os.environ["JOB_UUID"], os.environ.get("BERTH_TOKEN", "")
def call(method, path, body=None):
    for _ in range(200):
        try:
            request = urllib.request.Request(url + path, method=method, data=body and json.dumps(body).encode(),
                headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
            return urllib.request.urlopen(request, timeout=5).read().decode()
        except OSError as error:
            if getattr(error, "code", 0) == 404:
                raise
            time.sleep(0.1)
    raise SystemExit("nobody answers")
done, total = int(os.environ["EPOCHS_DONE"]), int(os.environ["EPOCHS_TO_BE_DONE"])
print("run", done, os.environ["JOB_RESTARTED"], os.environ["NUM_GPUS"], os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
while done < total:
    if call("GET", "/has_to_stop/" + job) == "1" and done < total - 1:
        print("stop", done, flush=True)
        raise SystemExit(0)
    time.sleep(float(os.environ.get("EPOCH", "0.2")))
    done += 1
    call("POST", "/end_epoch/" + job, {"done": done})
print("end", done, flush=True)
"""


# Whoever an admin makes work for has an account here: what is labelled `user: ann` runs as ann.
ACCOUNTS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pwd.h>
#include <string.h>
int getpwnam_r(const char *name, struct passwd *pwd, char *buf, size_t len, struct passwd **res)
{
    int rc = ((int (*)(const char *, struct passwd *, char *, size_t, struct passwd **))dlsym(RTLD_NEXT, "getpwnam_r"))
        (name, pwd, buf, len, res);
    if (rc == 0 && *res == NULL && strlen(name) < len && strcmp(name, "ghost") != 0) {
        unsigned hash = 0;
        for (const char *c = name; *c; c++)
            hash = hash * 31 + (unsigned char)*c;
        *pwd = (struct passwd){.pw_name = strcpy(buf, name), .pw_uid = 20000 + hash % 10000, .pw_gid = 65534,
                               .pw_dir = "/nonexistent", .pw_shell = "/bin/sh", .pw_gecos = "", .pw_passwd = "x"};
        *res = pwd;
    }
    return rc;
}
"""


def accounts(folder):
    """The environment of a daemon for which everybody has an account."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "accounts.c").write_text(ACCOUNTS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "accounts.so", folder / "accounts.c", "-ldl"], check=True)
    return {"LD_PRELOAD": str(folder / "accounts.so"), "ASAN_OPTIONS": "verify_asan_link_order=0"}


def start(folder, *flags, gpus=CARDS, env=None):
    cards = ["--gpus", gpus] if gpus else []
    return harness.Daemon(folder, "--agent", "on", *cards, "--min-run", "0", "--stop-wait", "5", "--claim-notice", "2", *flags,
                          env={"BERTH_SHIM": str(podkit.SHIM), "BERTH_IMAGE_HELPER": str(podkit.HELPER), **accounts(folder),
                               **(env or {})})


def close(node):
    """Ends all jobs and pods, sees that nothing stays, ends the daemon."""
    node.kubectl("delete", "trainingjobs", "--all", "--all-namespaces", timeout=60).ok()
    podkit.close(node)


def training(name, user, epochs=3, epoch=0.2, ns="default", labels=None, **spec):
    spec = {"singleGPU": True, **spec}
    return {"apiVersion": "berth.dev/v1", "kind": "TrainingJob",
            "metadata": {"name": name, "namespace": ns, "labels": {"user": user, **(labels or {})}},
            "spec": {"image": "host", "command": ["python3", "-c", SCRIPT], "maxEpochs": epochs,
                     "env": [{"name": "EPOCH", "value": str(epoch)}], **spec}}


def submit(node, *jobs):
    for job in jobs:
        answer = node.request("POST", API.format(job["metadata"]["namespace"]), body=job)
        assert answer.code == 201, answer.body


def gpu_pod(name, command, gpus=1, labels=None, **more):
    pod = podkit.pod(name, command, resources={"limits": {"nvidia.com/gpu": gpus}} if gpus else {}, **more)
    pod["metadata"]["labels"] = labels or {}
    return pod


def rows(node):
    return {row["name"]: row for row in node.get("/v1/queue")["jobs"]}


def show(node, name):
    return node.get(f"/v1/queue/{name}")


def until(node, name, test, what, timeout=30):
    def look():
        row = show(node, name)
        return row if test(row) else None
    try:
        return harness.wait(look, f"job {name}: {what}", timeout)
    except AssertionError as trouble:
        raise AssertionError(f"{trouble}\n{json.dumps(show(node, name), indent=1)[:3000]}\n{node.log()[-3000:]}") from trouble


def state(node, name, *wanted, timeout=30):
    return until(node, name, lambda row: row["state"] in wanted, f"state {wanted}", timeout)


def states(row):
    return [step["state"] for step in row["history"]]


def pids(node, pod_uid):
    """Processes of a pod's containers, as the host numbers them, in the order of their start."""
    found = set()
    for pattern in (f"/sys/fs/cgroup/*/berth-*/{pod_uid}_*", f"/sys/fs/cgroup/berth-*/{pod_uid}_*"):
        for group in glob.glob(pattern):
            for procs in [*glob.glob(f"{group}/cgroup.procs"), *glob.glob(f"{group}/*/cgroup.procs")]:
                with open(procs, encoding="ascii") as lines:
                    found.update(int(line) for line in lines)
    assert found, f"no process of pod {pod_uid} on {node.data}"
    return sorted(found)
