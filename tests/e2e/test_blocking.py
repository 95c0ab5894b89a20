"""What another system can hold up does not hold up the daemon: a silent name server, a file server that is away, a
directory service that does not answer."""

import os
import subprocess

import pytest

import hanging_fs
import harness
from pulse import Pulse

# Names under .silent are asked for ever; accounts as well, while a file is there.
HANG = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void hang(void) { const char *path = getenv("HANG_FILE"); while (path && access(path, F_OK) == 0) usleep(20000); }
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
    if (node && strstr(node, ".silent"))
        for (int i = 0; i < 600; i++) usleep(20000);
    return ((int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo"))
        (node, service, hints, res);
}
int getpwuid_r(uid_t uid, struct passwd *pwd, char *buf, size_t len, struct passwd **res)
{
    hang();
    return ((int (*)(uid_t, struct passwd *, char *, size_t, struct passwd **))dlsym(RTLD_NEXT, "getpwuid_r"))
        (uid, pwd, buf, len, res);
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocking")
    (folder / "hang.c").write_text(HANG)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "hang.so", folder / "hang.c", "-ldl"], check=True)
    env = {"LD_PRELOAD": str(folder / "hang.so"), "HANG_FILE": str(folder / "hang"),
           "ASAN_OPTIONS": "verify_asan_link_order=0"}
    with harness.Daemon(folder, "--gpus", "1x8000", env=env) as daemon:
        daemon.hang = folder / "hang"
        yield daemon


@pytest.mark.plain  # about times
def test_a_silent_name_server(server):
    token = server.post("/v1/tokens", {"user": "ann"})["token"]
    with Pulse(server) as pulse:
        answer = server.request("PUT", "/v1/notify", {"webhook": "http://hook.silent.example/x"}, via="http", token=token)
        assert answer.code == 200, answer.body
        assert server.request("POST", "/v1/notify/test", {}, via="http", token=token).code in (200, 202)
        waiting = harness.wait(lambda: [w for w in server.get("/v1/notify", via="http", token=token)["waiting"] if w["tries"]],
                               "the first try is over", timeout=30)
    assert "name server" in waiting[0]["why"]
    pulse.check()


def submit(server, **more):
    return server.request("POST", "/v1/train", {"job_name": "net", "dockerImage": "host", **more})


@pytest.mark.plain  # about times
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_folder_whose_server_is_away(server, tmp_path):
    try:
        away = hanging_fs.HangingFs(tmp_path / "away")
    except OSError as trouble:
        pytest.skip(f"no FUSE here: {trouble}")
    try:
        with Pulse(server) as pulse:
            for _ in range(20):
                answer = submit(server, directoryToMount=f"{away.folder}/code", scriptPath="/custom/train.py")
                assert answer.code == 503, answer.body
                assert "does not answer" in answer.body.decode() or "cannot be looked up" in answer.body.decode()
            assert away.asked.is_set()
        pulse.check()
    finally:
        away.close()


@pytest.mark.plain  # about times
def test_a_directory_service_that_does_not_answer(server):
    """The account of whoever submits; who asks over the socket as root is known without it."""
    harness.wait(lambda: submit(server, command=["true"]).code != 503, "what hung before is over")
    server.hang.touch()
    try:
        with Pulse(server) as pulse:
            for _ in range(20):
                answer = submit(server, command=["true"])
                assert answer.code == 503 and "cannot be looked up" in answer.body.decode(), answer.body
        pulse.check()
    finally:
        server.hang.unlink()
    harness.wait(lambda: submit(server, command=["true"]).code != 503, "it is looked up again")
