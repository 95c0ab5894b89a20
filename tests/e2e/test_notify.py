"""What happens is sent to where users want it: a sendmail that keeps what it gets, a webhook, a command."""

import email
import email.policy
import os
import pwd
import socket
import stat
import time

import pytest

import harness
import hooks

SENDMAIL = """#!/bin/sh
[ -e {folder}/fail ] && {{ echo "temporary trouble"; exit 75; }}
[ -e {folder}/refuse ] && {{ echo "no such user"; exit 67; }}
[ -e {folder}/hang ] && exec sleep 1000
cat >{folder}/$$.tmp
echo "$@" >{folder}/args
id -u >{folder}/uid
mv {folder}/$$.tmp {folder}/$$.mail
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's daemon runs commands of others")


class Mailbox:
    """A folder into which a sendmail of the test's own puts what it gets."""

    def __init__(self, folder):
        self.folder = folder
        self.folder.mkdir()
        self.program = folder / "sendmail"
        self.program.write_text(SENDMAIL.format(folder=folder))
        self.program.chmod(0o755)

    def mails(self):
        return [email.message_from_bytes(p.read_bytes(), policy=email.policy.default)
                for p in sorted(self.folder.glob("*.mail"), key=lambda p: p.stat().st_mtime_ns)]

    def first(self, timeout=20):
        return harness.wait(self.mails, "a mail comes", timeout)[0]


@pytest.fixture
def mailbox(tmp_path):
    return Mailbox(tmp_path / "mail")


@pytest.fixture
def receiver():
    made = hooks.Receiver()
    yield made
    made.close()


@pytest.fixture
def server(tmp_path, mailbox):
    with harness.Daemon(tmp_path / "d", "--notify-sendmail", mailbox.program, "--notify-from", "berth@lab.example",
                        "--callback-allow", "loopback", "--notify-commands", "true") as daemon:
        daemon.mailbox = mailbox
        yield daemon


def token_of(server, user):
    return server.post("/v1/tokens", {"user": user})["token"]


def as_user(server, user, *args, **more):
    return server.berth("--server", server.http, *args, BERTH_TOKEN=token_of(server, user), **more)


def test_a_mail_comes_with_a_sound_header(server):
    out = as_user(server, "ann", "notify", "set", "mail=ann@lab.example").ok()
    assert "mail     ann@lab.example" in out and "kinds    preempted, failed" in out
    as_user(server, "ann", "notify", "test").ok()
    mail = server.mailbox.first()
    assert mail["To"] == "ann@lab.example" and "berth@lab.example" in mail["From"]
    assert mail["Subject"].startswith("[berth]") and mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"].endswith("@lab.example>") and mail["Date"].datetime.year >= 2024
    assert "This is a test" in mail.get_content()
    assert (server.mailbox.folder / "args").read_text().split() == ["-t", "-oi"]


def test_a_mail_that_fails_is_sent_again_also_by_the_next_daemon(server):
    (server.mailbox.folder / "fail").touch()
    as_user(server, "ann", "notify", "set", "mail=ann@lab.example").ok()
    as_user(server, "ann", "notify", "test").ok()
    shown = harness.wait(lambda: "temporary trouble" in as_user(server, "ann", "notify").ok(), "the trouble is shown")
    assert shown
    server.kill9()
    (server.mailbox.folder / "fail").unlink()
    server.start()
    server.mailbox.first()


def test_a_mail_that_nobody_can_take_is_given_up_and_told(server):
    (server.mailbox.folder / "refuse").touch()
    as_user(server, "ann", "notify", "set", "mail=gone@lab.example").ok()
    as_user(server, "ann", "notify", "test").ok()
    item = harness.wait(lambda: server.get("/v1/inbox?user=ann")["items"], "the inbox says so")[0]
    assert item["kind"] == "notice" and "no such user" in item["text"] and "mail" in item["text"]
    (server.mailbox.folder / "refuse").unlink()
    assert not server.mailbox.mails() and len(server.get("/v1/inbox?user=ann")["items"]) == 1


def test_a_sendmail_that_hangs_holds_up_neither_the_daemon_nor_its_end(server):
    (server.mailbox.folder / "hang").touch()
    as_user(server, "ann", "notify", "set", "mail=ann@lab.example").ok()
    as_user(server, "ann", "notify", "test").ok()
    start = time.monotonic()
    for _ in range(50):
        server.get("/v1/status")
    assert time.monotonic() - start < 5 * harness.PATIENCE
    code, seconds = server.stop()
    assert code == 0 and seconds < 5 * harness.PATIENCE
    (server.mailbox.folder / "hang").unlink()
    server.start()
    server.mailbox.first()


@pytest.mark.parametrize("address", ["a@b\nBcc: x@y", "a b@c", "-oQ/tmp", "a@b,c@d", "<a@b>", "a@b@c", "@b", "a@"])
def test_an_address_cannot_smuggle_anything(server, address):
    answer = server.request("PUT", "/v1/notify?user=ann", {"mail": address})
    assert answer.code == 400 and "mail" in answer.json()["error"]


def test_a_webhook_gets_slack_text(server, receiver):
    as_user(server, "bob", "notify", "set", "webhook=-", stdin=receiver.url + "/services/T0/B0/secret\n").ok()
    as_user(server, "bob", "notify", "test").ok()
    got = harness.wait(lambda: receiver.received, "the webhook is called")[0]
    assert got["path"] == "/services/T0/B0/secret" and list(got["body"]) == ["text"]
    assert "This is a test" in got["body"]["text"]
    shown = as_user(server, "bob", "notify").ok()
    assert "127.0.0.1" in shown and "secret" not in shown


def test_a_webhook_that_fails_is_called_again_with_the_same_key(server, receiver):
    receiver.fail = 2
    as_user(server, "bob", "notify", "set", f"webhook={receiver.url}/x").ok()
    as_user(server, "bob", "notify", "test").ok()
    harness.wait(lambda: receiver.received, "it is delivered in the end", 30)
    assert len(receiver.arrived) == 3 and len(set(receiver.arrived)) == 1


def test_a_webhook_to_this_network_needs_the_admins_word(tmp_path):
    with harness.Daemon(tmp_path / "d") as daemon:
        answer = daemon.request("PUT", "/v1/notify?user=bob", {"webhook": "http://127.0.0.1:1/x"})
        assert answer.code == 403 and "callback-allow" in answer.json()["error"]


@needs_root
def test_a_command_runs_as_its_user_with_the_item(server, tmp_path):
    entry = pwd.getpwnam("nobody")
    folder = harness.pathlib.Path(harness.tempfile.mkdtemp(prefix="berth-"))
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    as_user(server, "nobody", "notify", "set",
            f'command=(id -u; id -G; echo "$BERTH_KIND"; env; ulimit -t; cat) >{folder}/t && mv {folder}/t {folder}/out').ok()
    as_user(server, "nobody", "notify", "test").ok()
    text = harness.wait(lambda: (folder / "out").exists() and (folder / "out").read_text(), "the command ran")
    lines = text.splitlines()
    assert lines[0] == str(entry.pw_uid) and lines[1] == str(entry.pw_gid) and lines[2] == "notice"
    assert '"text":"This is a test' in lines[-1] and lines[-2] == "10"
    assert not [line for line in lines if line.startswith(("BERTH_TOKEN", "BERTH_DATA"))]
    assert stat.S_IMODE((folder / "out").stat().st_mode) == 0o600
    harness.shutil.rmtree(folder)


@needs_root
def test_root_and_people_without_an_account_have_no_command(server):
    assert server.request("PUT", "/v1/notify", {"command": "id"}).code == 403
    as_user(server, "no-account", "notify", "set", "command=id").ok()
    as_user(server, "no-account", "notify", "test").ok()
    item = harness.wait(lambda: server.get("/v1/inbox?user=no-account")["items"], "the inbox says so")[0]
    assert "no account" in item["text"]


def test_commands_need_the_admins_word(tmp_path):
    with harness.Daemon(tmp_path / "d", "--notify-sendmail", "off") as daemon:
        assert "notify-commands" in daemon.berth("notify", "set", "command=id").fails(5)
        assert "notify-sendmail" in daemon.berth("notify", "set", "mail=a@b").fails(5)


def test_users_who_set_nothing_get_the_admins_default(tmp_path, mailbox):
    with harness.Daemon(tmp_path / "d", "--notify-sendmail", mailbox.program, "--notify-domain", "lab.example",
                        "--notify-kinds", "failed") as daemon:
        assert "this server's defaults" in as_user(daemon, "cleo", "notify").ok()
        as_user(daemon, "cleo", "notify", "test").ok()
        assert mailbox.first()["To"] == "cleo@lab.example"
        as_user(daemon, "cleo", "notify", "off").ok()
        assert "nothing is sent" in as_user(daemon, "cleo", "notify", "test").fails(4)


def test_settings_are_ones_own_and_kept(server):
    token = token_of(server, "eve")
    assert server.request("GET", "/v1/notify?user=ann", via="http", token=token).code == 403
    assert server.request("PUT", "/v1/notify?user=ann", {"mail": "eve@x"}, via="http", token=token).code == 403
    as_user(server, "ann", "notify", "set", "mail=ann@lab.example", "kinds=failed").ok()
    assert "no kind" in as_user(server, "ann", "notify", "set", "kinds=everything").fails()
    assert "unknown setting" in as_user(server, "ann", "notify", "set", "pager=1").fails()
    server.restart()
    doc = as_user(server, "ann", "notify", "-o", "json").json()
    assert doc["mail"] == "ann@lab.example" and doc["kinds"] == ["failed"] and doc["default"] is False
    assert as_user(server, "ann", "notify", "set", "mail=", "-o", "json").json()["mail"] is None


@needs_root
def test_a_name_server_that_is_silent_holds_nobody_up(tmp_path):
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.9\nnameserver 127.0.0.9\noptions timeout:30\n")

    class Daemon(harness.Daemon):
        def args(self):
            bind = f'mount --bind {tmp_path}/resolv.conf /etc/resolv.conf && exec "$@"'
            return ["unshare", "-m", "sh", "-c", bind, "sh", *super().args()]

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        try:
            silent.bind(("127.0.0.9", 53))
        except OSError as trouble:
            pytest.skip(f"no address for a name server: {trouble}")
        with Daemon(tmp_path / "d") as daemon:
            daemon.request("PUT", "/v1/notify?user=bob", {"webhook": "https://silent.example/x"})
            daemon.post("/v1/notify/test?user=bob", {})
            worst, waiting = 0, [{"tries": 0}]
            while not waiting[0]["tries"]:  # until the time for connecting is over
                start = time.monotonic()
                waiting = daemon.get("/v1/notify?user=bob")["waiting"]
                worst = max(worst, time.monotonic() - start)
                time.sleep(0.02)
            assert "name server does not answer" in waiting[0]["why"] and worst < 0.5 * harness.PATIENCE
