"""What comes over the network and did not get through, so that it keeps not getting through: callbacks to private
addresses and by names that change, other sites' pages, cross-site WebSockets."""

import base64
import contextlib
import socket
import subprocess
import threading
import urllib.parse

import pytest

import harness

# The first look at a name gives a public address, the next ones this machine's: as a rebinding name server does.
REBIND = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
static int asked;
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
    if (node && strstr(node, "rebind.example"))
        node = __atomic_fetch_add(&asked, 1, __ATOMIC_SEQ_CST) % 2 ? "127.0.0.1" : "192.0.2.1";
    else if (node && strstr(node, "inside.example"))
        node = "127.0.0.1";
    return ((int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo"))
        (node, service, hints, res);
}
"""

PRIVATE = ["http://127.0.0.1:{port}/", "http://127.1:{port}/", "http://2130706433:{port}/", "http://0x7f000001:{port}/", "http://0:{port}/",
           "http://[::1]:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://10.1.2.3/", "http://192.168.0.1/",
           "http://172.16.0.9/", "http://169.254.169.254/latest/meta-data/", "http://100.64.0.1/", "http://[fe80::1]/",
           "http://[fd00::1]/", "http://[64:ff9b::7f00:1]/", "http://localhost:{port}/", "http://user@127.0.0.1:{port}/",
           "http://127.0.0.1.:{port}/", "gopher://127.0.0.1:{port}/", "file:///etc/passwd"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    (folder / "rebind.c").write_text(REBIND)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "rebind.so", folder / "rebind.c", "-ldl"], check=True)
    with harness.Daemon(folder, env={"LD_PRELOAD": str(folder / "rebind.so"),
                                     "ASAN_OPTIONS": "verify_asan_link_order=0"}) as daemon:
        yield daemon


class Inside:
    """Something on loopback that must not be reached; notes who comes."""

    def __enter__(self):
        self.seen, self.socket = [], socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                link, address = self.socket.accept()
                self.seen.append(address)
                link.close()

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()


def tell(server, user, url):
    """Sets that webhook, sends a test; what is said of the first try, None where the URL was refused at once."""
    answer = server.request("PUT", f"/v1/notify?user={user}", {"webhook": url})
    if answer.code != 200:
        assert answer.code in (400, 403, 422), answer.body
        return None
    server.post(f"/v1/notify/test?user={user}", {})
    return harness.wait(lambda: [w["why"] for w in server.get(f"/v1/notify?user={user}")["waiting"] if w["tries"]], "a first try",
                        timeout=40)[0]


def test_callbacks_to_private_addresses(server):
    with Inside() as inside:
        for i, url in enumerate(PRIVATE):
            why = tell(server, f"u{i}", url.format(port=inside.port))
            assert why is None or "not allowed" in why or "resolve" in why.lower(), (url, why)
        assert not inside.seen


def test_names_that_lead_inside(server):
    with Inside() as inside:
        assert "not allowed" in tell(server, "ann", f"http://x.inside.example:{inside.port}/")
        for i in range(2):  # whichever answer comes first: what was looked up is what is connected to
            why = tell(server, f"bob{i}", f"http://r{i}.rebind.example:{inside.port}/")
            assert why and not inside.seen
        assert not inside.seen


# ---- browsers ----

def sign_in(server):
    code = server.post("/v1/page/links", {})["code"]
    answer = server.request("POST", "/v1/page/session", {"code": code}, via="http")
    return answer.headers["Set-Cookie"].split(";")[0], answer.json()["csrf"]


@pytest.mark.parametrize("headers", [
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}])
def test_other_sites_change_nothing(server, headers):
    cookie, csrf = sign_in(server)
    for sent in ({}, {"X-Berth-CSRF": csrf}):
        answer = server.request("POST", "/v1/tokens", {"user": "evil"}, via="http", headers={"Cookie": cookie, **sent, **headers})
        assert answer.code == 403, answer.body


def test_a_session_needs_its_own_csrf_header(server):
    cookie, csrf = sign_in(server)
    other = sign_in(server)[1]
    for sent in ({}, {"X-Berth-CSRF": ""}, {"X-Berth-CSRF": other}, {"X-Berth-CSRF": csrf[:-1]}):
        assert server.request("POST", "/v1/tokens", {"user": "x"}, via="http", headers={"Cookie": cookie, **sent}).code == 403
    assert server.request("POST", "/v1/tokens", {"user": "x"}, via="http", headers={"Cookie": cookie, "X-Berth-CSRF": csrf}).code == 201


@pytest.mark.parametrize("path", ["/api/v1/namespaces/default/pods/p/exec?command=id&stdout=1", "/v1/files?path=/etc/passwd",
                                  "/api/v1/namespaces/default/pods/p/portforward?ports=80"])
def test_cross_site_websockets(server, path):
    cookie, _ = sign_in(server)
    address = urllib.parse.urlsplit(server.http)
    with socket.create_connection((address.hostname, address.port), timeout=10) as link:
        key = base64.b64encode(bytes(16)).decode()
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                     f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n"
                     f"Origin: http://evil.example\r\nCookie: {cookie}\r\n\r\n".encode())
        assert link.recv(4096).startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 403 "))


@pytest.mark.parametrize("host", ["evil.example", "evil.example:5336", "127.0.0.1.evil.example"])
def test_a_foreign_name_that_leads_here_sees_nothing(server, host):
    """DNS rebinding against the page: callers without a name on this machine see the queue, by its own names alone."""
    assert server.request("GET", "/v1/queue", via="http").code == 200
    assert server.request("GET", "/v1/queue", via="http", headers={"Host": host}).code in (401, 403)


def test_what_others_wrote_does_not_steer_a_terminal(server, tmp_path):
    """The title of a window, the clipboard, keys that are typed: a terminal obeys what it is shown."""
    import labkit
    text = "a: 1 # \x1b]0;owned\x07 \x1b[5n \u009b2J\n"
    (tmp_path / "t.j2").write_text(text)
    server.berth("template", "put", "hostile", "-f", str(tmp_path / "t.j2")).ok()
    env = server.program_env(BERTH_SERVER=f"unix:{server.socket}")
    status, shown = labkit.on_terminal([harness.BERTH, "template", "show", "hostile"], env)
    assert status == 0 and "owned" in shown and not set("\x1b\x07\u009b") & set(shown), repr(shown)
    assert server.berth("template", "show", "hostile").ok() == text  # a pipe has it as it is
