"""What a browser relies on, asked without one: files and their headers, sign-in, other sites, path prefixes, and who
sees what."""
import base64
import contextlib
import gzip
import json
import re

import pytest
import yaml

import harness

pytestmark = pytest.mark.plain


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with harness.Daemon(tmp_path_factory.mktemp("berth"), "--gpus", "2x8192", "--path-prefix", "/berth", "--agent", "off") as running:
        yield running


def sign_in(daemon, user=None, **headers):
    """(cookie, csrf) of a new session."""
    code = daemon.post("/v1/page/links", {"user": user} if user else {})["code"]
    answer = daemon.request("POST", "/v1/page/session", {"code": code}, via="http", headers=headers)
    assert answer.code == 201, answer.body
    return answer.headers["Set-Cookie"].split(";")[0], answer.json()["csrf"]


def test_files_are_compressed_and_cached_for_ever(daemon):
    index = daemon.request("GET", "/", via="http")
    assert index.code == 200 and index.headers["Cache-Control"] == "no-cache" and b"@ASSETS@" not in index.body
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
        assert part in index.headers["Content-Security-Policy"]
    assert "unsafe" not in index.headers["Content-Security-Policy"] and b"http" not in re.sub(rb"https?-equiv", b"", index.body)
    names = re.findall(r'(?:src|href)="(assets/[^"]+)"', index.body.decode())
    assert len(names) > 5
    for name in names:
        packed = daemon.request("GET", f"/{name}", via="http", headers={"Accept-Encoding": "br, gzip"})
        plain = daemon.request("GET", f"/{name}", via="http")
        assert packed.code == plain.code == 200 and "immutable" in packed.headers["Cache-Control"]
        assert packed.headers["Content-Encoding"] == "gzip" and gzip.decompress(packed.body) == plain.body
        assert packed.headers["X-Content-Type-Options"] == "nosniff"
        again = daemon.request("GET", f"/{name}", via="http", headers={"If-None-Match": packed.headers["ETag"]})
        assert (again.code, again.body) == (304, b"")
    assert daemon.request("GET", "/assets/0000000000000000/app.js", via="http").code == 404
    assert daemon.request("GET", names[0].rsplit("/", 1)[0].join(("/", "/../../etc/passwd")), via="http").code == 404
    assert daemon.request("POST", "/", {}, via="http").code == 405


def test_a_link_signs_in_once(daemon):
    link = daemon.berth("token", "--web").ok().strip()
    assert link.startswith(daemon.http + "/berth/#signin=")
    code = link.partition("signin=")[2]
    first = daemon.request("POST", "/v1/page/session", {"code": code}, via="http")
    assert (first.code, first.json()["user"], first.json()["admin"]) == (201, "system:admin", True)
    cookie = first.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/berth/" in cookie and "Secure" not in cookie
    assert daemon.request("POST", "/v1/page/session", {"code": code}, via="http").code == 401
    assert daemon.request("POST", "/v1/page/session", {"code": "0" * 48}, via="http").code == 401
    assert daemon.request("POST", "/v1/page/session", {"code": 7}, via="http").code == 401
    stored = b"".join(p.read_bytes() for p in daemon.data.glob("berth.db*"))
    assert code.encode() not in stored and cookie.partition("=")[2][:48].encode() not in stored


def test_a_session_outlives_the_daemon_and_ends_with_signing_out(daemon):
    cookie, csrf = sign_in(daemon, "ann")
    ask = lambda: daemon.request("GET", "/v1/page/session", via="http", headers={"Cookie": cookie}).json()
    assert (ask()["user"], ask()["via"], ask()["admin"], ask()["csrf"]) == ("ann", "session", False, csrf)
    daemon.restart()
    assert ask()["user"] == "ann"
    over = daemon.request("DELETE", "/v1/page/session", via="http", headers={"Cookie": cookie, "X-Berth-CSRF": csrf})
    assert over.code == 200 and "Max-Age=0" in over.headers["Set-Cookie"]
    assert ask()["user"] is None


def test_only_admins_make_links_for_others(daemon):
    token = daemon.post("/v1/tokens", {"user": "ann"})["token"]
    own = daemon.request("POST", "/v1/page/links", {}, via="http", token=token)
    assert own.code == 201 and own.json()["user"] == "ann"
    other = daemon.request("POST", "/v1/page/links", {"user": "bob"}, via="http", token=token)
    assert other.code == 403 and "admin" in other.json()["error"]
    assert daemon.request("POST", "/v1/page/links", {}, via="http").code == 401


def test_other_sites_change_nothing(daemon):
    cookie, csrf = sign_in(daemon, "ann")
    post = lambda **headers: daemon.request("POST", "/v1/tokens", {}, via="http", headers={"Cookie": cookie, **headers}).code
    assert post() == 403
    assert post(**{"X-Berth-CSRF": "0" * 64}) == 403
    assert post(**{"X-Berth-CSRF": csrf}) == 201
    assert post(**{"X-Berth-CSRF": csrf, "Origin": daemon.http, "Sec-Fetch-Site": "same-origin"}) == 201
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        assert post(**{"X-Berth-CSRF": csrf, **headers}) == 403, headers
        code = daemon.post("/v1/page/links", {})["code"]  # nor does another site sign somebody in
        assert daemon.request("POST", "/v1/page/session", {"code": code}, via="http", headers=headers).code == 403
    assert daemon.request("GET", "/api/v1/namespaces", via="http", headers={"Cookie": cookie}).code == 403


def test_a_client_certificate_is_a_sign_in(daemon, tmp_path):
    config = yaml.safe_load(daemon.post("/v1/users", {"name": "cara"})["kubeconfig"])["users"][0]["user"]
    files = []
    for key in ("client-certificate-data", "client-key-data"):
        files.append(tmp_path / key)
        files[-1].write_bytes(base64.b64decode(config[key]))

    def ask(method, path, body=None, **headers):
        with contextlib.closing(daemon.connect("https", cert=files)) as connection:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    status, doc = ask("GET", "/v1/page/session")
    assert (status, doc["user"], doc["via"], doc["csrf"]) == (200, "cara", "certificate", None)
    assert ask("POST", "/v1/tokens", "{}", Origin=daemon.https)[0] == 201
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):  # browsers send certificates by themselves
        status, doc = ask("POST", "/v1/tokens", "{}", **headers)
        assert status == 403 and "another site" in doc["error"]
        status, doc = ask("POST", "/api/v1/namespaces/cara/pods", "{}", **headers)
        assert status == 403


def test_both_kinds_of_prefix(daemon):
    bare = daemon.request("GET", "/berth", via="http")
    assert (bare.code, bare.headers["Location"]) == (308, "/berth/")
    assert daemon.request("GET", "/berth/", via="http").body == daemon.request("GET", "/", via="http").body
    assert daemon.request("GET", "/berth/v1/page/session", via="http").code == 200
    assert daemon.request("GET", "/berthx/v1/page/session", via="http").code == 404
    code = daemon.post("/v1/page/links", {})["code"]
    seen = daemon.request("POST", "/v1/page/session", {"code": code}, via="http",
                          headers={"X-Forwarded-Prefix": "/lab/gpu/", "X-Forwarded-Proto": "https"}).headers["Set-Cookie"]
    assert "Path=/lab/gpu/" in seen and seen.endswith("Secure")
    code = daemon.post("/v1/page/links", {})["code"]
    odd = daemon.request("POST", "/v1/page/session", {"code": code}, via="http", headers={"X-Forwarded-Prefix": "/a; Domain=evil"})
    assert "evil" not in odd.headers["Set-Cookie"]


def test_who_sees_the_queue_without_a_name(daemon, tmp_path):
    see = lambda d, **headers: d.request("GET", "/v1/queue", via="http", headers=headers).code
    assert see(daemon) == 200
    assert see(daemon, **{"X-Forwarded-For": "10.0.0.7"}) == 401
    assert see(daemon, Host="evil.example:5336") == 401
    assert daemon.request("GET", "/v1/nodes", via="http").code == daemon.request("GET", "/v1/history", via="http").code == 200
    for path in ("/v1/queue/x/logs", "/describe/x", "/v1/tokens", "/v1/task-definitions"):
        assert daemon.request("GET", path, via="http").code == 401, path
    assert daemon.request("POST", "/v1/queue/x/cancel", {}, via="http").code == 401
    for setting, code in (("none", 401), ("queue", 200)):
        with harness.Daemon(tmp_path / setting, "--anonymous", setting, "--agent", "off") as other:
            assert see(other) == code and see(other, Host="lab.example") == code


def test_wrong_questions_get_one_sentence(daemon):
    for path, code, word in (("/v1/queue/none-such", 404, "none-such"), ("/v1/history?from=yesterday", 422, "yesterday"),
                             ("/v1/history?limit=0", 422, "limit"), ("/v1/history?format=xml", 422, "format"),
                             ("/v1/usage?by=year", 422, "by"), ("/v1/nodes/timeline?to=x", 422, "to"),
                             ("/v1/queue/a%00b", 404, "")):
        answer = daemon.request("GET", path)
        assert answer.code == code, (path, answer.body)
        if word:
            assert answer.json()["code"] == code and word in answer.json()["error"], answer.body
    assert daemon.request("PUT", "/v1/queue", {}).code == 405
    assert daemon.request("GET", "/v1/history?format=csv").body.decode().startswith("id,kind,namespace,name,user,state")
    assert daemon.get("/api/state") == []
