"""The command line from outside: what it prints, where, and with which exit status."""

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

import pytest
import yaml

import harness
import podkit

OK, FAILED, USAGE, UNREACHABLE, NOT_FOUND, DENIED, CONFLICT = range(7)

# As the Hyperion guide has it: no valid manifest, four slips.
GUIDE_JOB = """\
---
apiVersion: v1
kind: Job
metadata:
  name: awesome-project-trainer
spec:
  template:
    spec:
      containers:
      - name: trainer
        image: registry.lab/alice/awesome-project:latest
        resources:
          request:
            memory: 2048Mi
            cpu: 1
          limits:
            memory: 4096Mi
            cpu: 2
---
"""


def configmap(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def alone(*args, stdin=None, **env):
    """berth without any daemon of ours in its environment."""
    with tempfile.TemporaryDirectory(prefix="berth-") as home:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "XDG_"))}
        return harness.run([harness.BERTH, *args], stdin=stdin, env={**clean, "HOME": home, **env})


# ---- help and usage ----


def test_help_lists_every_verb_and_every_verb_explains_itself():
    lines = alone("help").ok().split("Verbs:\n")[1].split("\n\n")[0].splitlines()
    verbs = [line.strip().split("  ")[0] for line in lines]
    assert {"up", "apply", "user add", "token revoke"} <= set(verbs)
    for verb in verbs:
        text = alone(*verb.split(), "--help").ok()
        assert text.startswith(f"Usage: berth {verb}"), verb
        assert text == alone("help", *verb.split()).ok()


def test_documentation_names_every_verb():
    page = (harness.ROOT / "docs" / "cli.md").read_text()
    manual = (harness.ROOT / "docs" / "man" / "berth.1").read_text()
    for line in alone("help").ok().split("Verbs:\n")[1].split("\n\n")[0].splitlines():
        verb = line.strip().split("  ")[0]
        assert verb == "help" or (f"`{verb}" in page and verb in manual), verb


@pytest.mark.parametrize("args, message", [
    (["aply"], "berth: there is no verb 'aply': did you mean 'berth apply'?\n"),
    (["--frob"], "berth: unknown option '--frob': see 'berth help'\n"),
    (["get"], "berth get: needs KIND [NAME...]: see 'berth get --help'\n"),
    (["status", "--frob"], "berth status: unknown option '--frob': see 'berth status --help'\n"),
    (["status", "-o", "name"], "berth status: -o must be one of json yaml, not 'name': see 'berth status --help'\n"),
    (["apply"], "berth apply: needs -f FILE: see 'berth apply --help'\n"),
    (["delete", "pods"], "berth delete: needs either names, or -l or --all: see 'berth delete --help'\n"),
    (["token", "create", "--ttl", "soon"],
     "berth token create: --ttl must be a time such as 30d, 12h or 90m, not 'soon': see 'berth token create --help'\n"),
])
def test_wrong_usage_is_one_sentence_and_status_2(daemon, args, message):
    assert daemon.berth(*args).fails(USAGE) == message


def test_group_without_its_second_word_lists_them():
    assert "berth user add" in alone("user").fails(USAGE)


def test_no_daemon_is_said_with_the_remedy():
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:
        for verb in (["status"], ["get", "pods"], ["user", "list"]):
            assert alone("--data", folder, *verb).fails(UNREACHABLE) == \
                f"berth: no Berth daemon at {folder}/berth.sock: start one with 'berth up'\n"
        assert alone("--server", f"unix:{folder}/s", "status").fails(UNREACHABLE)
        assert "berthd not running" in alone("--data", folder, "version").ok()


# ---- up and down ----


@pytest.fixture
def folder():
    """A short path: sockets have to fit."""
    path = tempfile.mkdtemp(prefix="berth-")
    yield path
    alone("--data", path, "down")
    if os.geteuid() == 0:
        podkit.remove_traces(path)
    shutil.rmtree(path, ignore_errors=True)


ANY_PORT = ["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"]


def test_up_starts_a_daemon_that_down_stops(folder):
    text = alone("up", "--data", folder, *ANY_PORT).ok()
    assert "is running." in text and f"export KUBECONFIG={folder}/admin.kubeconfig" in text
    pid = int(pathlib.Path(folder, "berthd.pid").read_text())
    assert os.getsid(pid) == pid
    assert "running already" in alone("up", "--data", folder, *ANY_PORT).ok()
    status = json.loads(alone("--data", folder, "status", "-o", "json").ok())
    assert status["dataDir"] == folder
    assert alone("--data", folder, "down").ok() == "Berth has stopped.\n"
    assert not os.path.exists(f"/proc/{pid}") or "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2]
    assert "not running" in alone("--data", folder, "down").ok()


def test_up_passes_on_what_berthd_says_when_it_cannot_start(folder):
    assert "did you mean --https?" in alone("up", "--data", folder, "--htps", "off").fails(FAILED)
    pathlib.Path(folder, "berthd.yaml").write_text("nodelabel: a=b\n")
    assert "did you mean 'nodeLabels'?" in alone("up", "--data", folder).fails(FAILED)


def test_up_in_the_foreground_is_berthd_itself(folder):
    process = subprocess.Popen([harness.BERTH, "up", "--data", folder, "--foreground", *ANY_PORT],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert "ready:" in process.stdout.readline()
    process.terminate()
    assert process.wait(harness.STOP_SEC) == 0
    process.stdout.close()


def test_status_shows_addresses_and_objects(daemon):
    lines = dict(line.split(None, 1) for line in daemon.berth("status").ok().splitlines())
    assert lines["http"] == daemon.http and lines["https"] == daemon.https
    assert lines["data"] == str(daemon.data)
    assert "namespaces=" in lines["objects"]
    assert yaml.safe_load(daemon.berth("status", "-o", "yaml").ok())["version"] == daemon.version


def test_doctor_has_a_line_a_check_and_a_fix_for_each_trouble(daemon):
    lines = daemon.berth("doctor").ok().splitlines()
    assert lines[0].split()[:2] == ["ok", "daemon"]
    items = json.loads(daemon.berth("doctor", "-o", "json").ok())["items"]
    assert len(items) == len(lines)
    assert {"daemon", "kubectl", "data folder", "disk", "cgroups", "clock"} <= {i["check"] for i in items}
    assert all(i["result"] in ("ok", "info", "warn", "fail") for i in items)
    assert all("fix" in i for i in items if i["result"] in ("warn", "fail"))


def test_version_tells_both(daemon):
    assert daemon.berth("version").ok().splitlines()[:2] == [f"berth {daemon.version}", f"berthd {daemon.version}"]


# ---- objects ----


def test_apply_says_what_it_did(daemon, ns, tmp_path):
    file = tmp_path / "cm.yaml"
    file.write_text(yaml.safe_dump(configmap("a", x="1")))
    assert daemon.berth("apply", "-f", file, "-n", ns, "--dry-run").ok() == "configmap/a created (dry run)\n"
    assert daemon.berth("apply", "-f", file, "-n", ns).ok() == "configmap/a created\n"
    assert daemon.berth("apply", "-f", file, "-n", ns).ok() == "configmap/a unchanged\n"
    file.write_text(yaml.safe_dump(configmap("a", x="2")))
    assert daemon.berth("apply", "-f", file, "-n", ns).ok() == "configmap/a configured\n"
    assert daemon.berth("apply", "-f", file, "-n", ns, "-o", "name").ok() == "configmap/a\n"


def test_apply_takes_folders_in_order_and_standard_input(daemon, ns, tmp_path):
    (tmp_path / "2.yml").write_text(yaml.safe_dump(configmap("two")))
    (tmp_path / "1.json").write_text(json.dumps(configmap("one")))
    (tmp_path / "notes.txt").write_text("not: a manifest")
    assert daemon.berth("apply", "-f", tmp_path, "-n", ns).ok() == "configmap/one created\nconfigmap/two created\n"
    assert daemon.berth("apply", "-f", "-", "-n", ns, stdin=configmap("three")).ok() == "configmap/three created\n"


def test_apply_corrects_the_guides_manifest_and_warns_of_each_slip(daemon, ns):
    result = daemon.berth("apply", "-f", "-", "-n", ns, stdin=GUIDE_JOB)
    assert result.ok() == "job.batch/awesome-project-trainer created\n"
    warnings = result.err.splitlines()
    assert len(warnings) >= 3 and all(w.startswith("warning: stdin:doc 1: ") for w in warnings), warnings
    assert "job.batch \"awesome-project-trainer\" deleted\n" == \
        daemon.berth("delete", "-f", "-", "-n", ns, stdin=GUIDE_JOB).ok()


def test_apply_goes_on_after_a_bad_document(daemon, ns):
    bad = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not_A_Name"}}
    text = "\n---\n".join(yaml.safe_dump(d) for d in (bad, configmap("good")))
    result = daemon.berth("apply", "-f", "-", "-n", ns, stdin=text)
    assert result.fails(FAILED).startswith("Error: stdin:doc 1: ConfigMap \"Not_A_Name\" is invalid: ")
    assert result.out == "configmap/good created\n"


def test_apply_names_the_place_of_broken_yaml(daemon, ns, tmp_path):
    file = tmp_path / "broken.yaml"
    file.write_text("kind: [\n")
    message = daemon.berth("apply", "-f", file, "-n", ns).fails(FAILED)
    assert message.startswith(f"Error: {file}: ") and "line" in message
    assert "No such file" in daemon.berth("apply", "-f", tmp_path / "none.yaml").fails(NOT_FOUND)


def test_get_prints_what_kubectl_prints(daemon, ns, kubectl):
    for name in ("a", "bb"):
        daemon.post(f"/api/v1/namespaces/{ns}/configmaps", configmap(name, k="v"))
    for args in (["get", "configmaps", "-n", ns], ["get", "cm", "a", "-n", ns, "-o", "name"], ["get", "ns"],
                 ["get", "cm", "-n", ns, "--no-headers"], ["get", "pc"]):
        mine, theirs = (re.sub(r"\b\d+[smh]\S*", "AGE", text)
                        for text in (daemon.berth(*args).ok(), kubectl(*args).ok()))
        assert [line.split() for line in mine.splitlines()] == [line.split() for line in theirs.splitlines()], args


def test_get_selects_and_formats(daemon, ns):
    for name, label in (("a", "x"), ("b", "y")):
        doc = configmap(name)
        doc["metadata"]["labels"] = {"app": label}
        daemon.post(f"/api/v1/namespaces/{ns}/configmaps", doc)
    assert daemon.berth("get", "cm", "-n", ns, "-l", "app=y", "-o", "name").ok() == "configmap/b\n"
    assert json.loads(daemon.berth("get", "ConfigMap", "a", "-n", ns, "-o", "json").ok())["metadata"]["name"] == "a"
    assert yaml.safe_load(daemon.berth("get", "configmap/b", "-n", ns, "-o", "yaml").ok())["kind"] == "ConfigMap"
    assert daemon.berth("get", "cm", "-A").ok().splitlines()[0].split()[:2] == ["NAMESPACE", "NAME"]
    assert daemon.berth("get", "pods", "-n", ns).err == f"No resources found in {ns} namespace.\n"


def test_get_of_nothing_is_status_4(daemon, ns):
    assert daemon.berth("get", "pod", "x", "-n", ns).fails(NOT_FOUND) == 'berth: pods "x" not found\n'
    assert daemon.berth("get", "frobs").fails(NOT_FOUND) == "berth: the daemon has no kind 'frobs'\n"


def test_delete_by_name_label_and_all(daemon, ns):
    for name in ("a", "b", "c", "d"):
        doc = configmap(name)
        doc["metadata"]["labels"] = {"even": str(name in "bd").lower()}
        daemon.post(f"/api/v1/namespaces/{ns}/configmaps", doc)
    assert daemon.berth("delete", "cm", "a", "-n", ns).ok() == 'configmap "a" deleted\n'
    assert daemon.berth("delete", "cm/c", "-n", ns).ok() == 'configmap "c" deleted\n'
    assert daemon.berth("delete", "cm", "-l", "even=true", "-n", ns).ok().count("deleted") == 2
    assert daemon.berth("delete", "cm", "a", "-n", ns).fails(NOT_FOUND)
    assert daemon.berth("delete", "cm", "a", "-n", ns, "--ignore-not-found").ok() == ""


# ---- users and tokens ----


def test_user_gets_a_private_kubeconfig_that_works(daemon, tmp_path, kubectl):
    file = tmp_path / "alice.kubeconfig"
    daemon.berth("user", "add", "alice", "--group", "lab", "--kubeconfig", file).ok()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert kubectl("get", "pods", kubeconfig=file).ok() == ""
    assert "forbidden" in kubectl("get", "pods", "-n", "kube-system", kubeconfig=file).fails()
    assert "alice" in daemon.berth("user", "list").ok()
    assert yaml.safe_load(daemon.berth("kubeconfig", "--user", "alice").ok())["kind"] == "Config"
    assert yaml.safe_load(daemon.berth("kubeconfig").ok())["users"][0]["name"] == "system:admin"


def test_token_works_until_it_is_revoked(daemon):
    daemon.berth("user", "add", "tom").ok()
    made = json.loads(daemon.berth("token", "create", "--user", "tom", "--ttl", "1h", "--description", "ci", "-o",
                                   "json").ok())
    remote = {"BERTH_TOKEN": made["token"], "BERTH_CA": str(daemon.ca)}
    assert alone("--server", daemon.https, "get", "pods", **remote).ok() == ""
    assert "tom" in daemon.berth("token", "list").ok() and made["token"] not in daemon.berth("token", "list").ok()
    assert alone("--server", daemon.https, "user", "list", **remote).fails(DENIED)
    assert daemon.berth("token", "revoke", made["id"]).ok() == f"token {made['id']} revoked\n"
    assert alone("--server", daemon.https, "get", "pods", **remote).fails(DENIED)
    assert daemon.berth("token", "revoke", made["id"]).fails(NOT_FOUND)


def test_token_alone_goes_to_stdout(daemon):
    result = daemon.berth("token", "create")
    assert result.ok().count("\n") == 1 and result.out.startswith("berth_")
    assert "shown this once" in result.err


# ---- completion ----


def completions(*words):
    return [line.split("\t")[0] for line in alone("__complete", *words).ok().splitlines()]


def test_completion_offers_verbs_options_and_values():
    assert {"apply", "user", "get"} <= set(completions(""))
    assert completions("ap") == ["apply"]
    assert set(completions("user", "")) == {"add", "disable", "enable", "list", "remove"}
    assert "--dry-run" in completions("apply", "--d")
    assert completions("get", "pods", "-o", "y") == ["yaml"]
    assert "pods" in completions("get", "po")
    assert completions("completion", "z") == ["zsh"]
    assert completions("apply", "-f", "") == []  # the shell's own files


def test_bash_completion_works_in_bash():
    script = (f"PATH={harness.BERTH.parent}:$PATH; source <(berth completion bash); COMP_WORDS=(berth ge); "
              "COMP_CWORD=1; _berth; echo \"${COMPREPLY[@]}\"")
    assert harness.run(["bash", "-c", script]).ok() == "get\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_script_is_valid(shell):
    script = alone("completion", shell).ok()
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    assert harness.run([shell, "-n"], stdin=script).ok() == ""
