"""KubeProfiler: attributes, calls and the way of stopping, as the DL scheduler's guide has them."""

import copy
import os
import pickle
import socket
import subprocess
import sys
import time

import pytest

from kubernetesdlprofile import kubeprofiler

SRC = os.path.join(os.path.dirname(__file__), "..", "src")


def epoch(prof, steps=6):
    prof.start_epoch()
    for _ in range(steps):
        prof.measure()
    prof.end_epoch()


def test_outside_berth_all_works_with_harmless_defaults():
    prof = kubeprofiler.KubeProfiler()
    assert (prof.JOBID, prof.EPOCHS, prof.EPOCHS_DONE, prof.RESTARTED) == ("local", 1, 0, False)
    assert (prof.BATCH_SIZE, prof.TRAINING_SET_SIZE, prof.NUM_GPUS, prof.LOCAL_RANK) == (1, 1, 1, -1)
    assert os.path.isdir(prof.root_dir) and prof.ckpt_path is None
    epoch(prof)
    prof.end()
    assert prof.epoch == 1 and prof.iterations == 5


def test_attributes_are_the_environment(inside):
    inside(NUM_GPUS="2", NODE_RANK="1", EPOCHS_DONE="1", JOB_RESTARTED="TRUE", LOCAL_RANK="0")
    prof = kubeprofiler.KubeProfiler()
    assert (prof.JOBID, prof.PROFILE_EACH, prof.RANK, prof.NODE_LIST) == ("job-1", 5, 1, "lab1")
    assert (prof.NUM_GPUS, prof.NUM_NODES, prof.RESTARTED, prof.BATCH_SIZE) == (2, 1, True, 10)
    assert (prof.EPOCHS, prof.EPOCHS_DONE, prof.TRAINING_SET_SIZE, prof.LOCAL_RANK) == (3, 1, 100, 0)
    assert prof.iterationPerEpoch == 5 and prof.epoch == 1
    assert prof.root_dir.endswith("/shots/job-1")


@pytest.mark.parametrize("text,restarted", [("FALSE", False), ("TRUE", True), ("false", False), ("", False)])
def test_restarted(inside, text, restarted):
    inside(JOB_RESTARTED=text)
    assert kubeprofiler.KubeProfiler().RESTARTED is restarted


def test_bad_numbers_do_not_crash(inside, capfd):
    inside(BATCH_SIZE="many", NUM_GPUS="-3")
    prof = kubeprofiler.KubeProfiler()
    assert prof.BATCH_SIZE == 1 and prof.NUM_GPUS == 0
    assert "BATCH_SIZE is 'many'" in capfd.readouterr().err


def test_the_calls_are_those_of_the_wire(inside, scheduler):
    prof = kubeprofiler.KubeProfiler()
    epoch(prof)
    done = scheduler.wait("/end_epoch/job-1")
    assert done[0] == ("POST", "/end_epoch/job-1", {"done": 1}, "Bearer secret")
    polls = scheduler.of("/has_to_stop/")
    assert [it[:2] for it in polls] == [("GET", "/has_to_stop/job-1?epoch=0")]
    rows = scheduler.of("/profiling/job-1")
    assert set(rows[0][2]) == {"jobid", "timestamp", "iternum", "nodelist", "numgpu", "rank", "meandur", "gpumem"}
    assert rows[0][2]["iternum"] == 5
    assert set(rows[-1][2]) - set(rows[0][2]) == {"epochDur"}
    assert rows[-1][2]["epochDur"] > 0


def test_hosts_may_be_given_and_do_not_see_the_token(inside, scheduler):
    inside(BERTH_URL="")
    prof = kubeprofiler.KubeProfiler(job_manager_hostname=scheduler.host, db_hostname=scheduler.host)
    assert prof.jmHostname == prof.dbHostname == scheduler.host
    epoch(prof)
    scheduler.wait("/end_epoch/job-1")
    assert scheduler.of("/has_to_stop/")[0][1] == "/has_to_stop/job-1"
    assert all(it[3] is None for it in scheduler.calls)


def test_a_stop_leaves_at_the_first_step_of_the_epoch_with_status_0(inside, scheduler):
    prof = kubeprofiler.KubeProfiler()
    epoch(prof)
    scheduler.stop = "1"
    prof.start_epoch()
    with pytest.raises(SystemExit) as left:
        prof.measure()
    assert left.value.code == 0
    assert prof.epoch == 1


def test_only_the_exact_text_stops(inside, scheduler):
    prof = kubeprofiler.KubeProfiler()
    for scheduler.stop in ("0", "1\n", '"1"', "true", ""):
        prof.start_epoch()
        prof.measure()


def test_the_last_epoch_is_not_stopped(inside, scheduler):
    inside(EPOCHS_DONE="2")
    scheduler.stop = "1"
    prof = kubeprofiler.KubeProfiler()
    epoch(prof)
    assert not scheduler.of("/has_to_stop/")


def test_only_the_first_process_of_a_node_speaks_but_all_ask(inside, scheduler):
    inside(LOCAL_RANK="1", NUM_GPUS="2")
    prof = kubeprofiler.KubeProfiler()
    epoch(prof)
    scheduler.wait("/has_to_stop/")
    time.sleep(0.2)
    assert not scheduler.of("/profiling/") and not scheduler.of("/end_epoch/")


def test_a_daemon_that_is_away_neither_slows_nor_stops(inside):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        inside(BERTH_URL="http://127.0.0.1:%d" % free.getsockname()[1], EPOCHS_TO_BE_DONE="1000")
    prof = kubeprofiler.KubeProfiler()
    begun = time.monotonic()
    for _ in range(200):
        epoch(prof, 50)
    assert time.monotonic() - begun < 2.0


def test_a_daemon_that_hangs_costs_one_short_wait(inside):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(1)  # accepts, never answers
        inside(BERTH_URL="http://127.0.0.1:%d" % deaf.getsockname()[1], EPOCHS_TO_BE_DONE="100")
        prof = kubeprofiler.KubeProfiler()
        begun = time.monotonic()
        for _ in range(50):
            epoch(prof)
        assert time.monotonic() - begun < 2.0


def test_ends_of_epochs_arrive_when_the_daemon_comes_back(inside, scheduler):
    scheduler.status = 503
    prof = kubeprofiler.KubeProfiler()
    epoch(prof)
    epoch(prof)
    scheduler.wait("/profiling/")
    scheduler.status = 200
    calls = scheduler.wait("/end_epoch/")
    assert calls[-1][2] == {"done": 2}


def test_a_refusal_is_not_repeated_for_ever(inside, scheduler):
    scheduler.status = 403
    prof = kubeprofiler.KubeProfiler()
    epoch(prof)
    scheduler.wait("/end_epoch/")
    time.sleep(0.3)
    assert len(scheduler.of("/end_epoch/")) == 1


def test_it_can_be_copied_and_pickled_as_part_of_a_model(inside, scheduler):
    prof = kubeprofiler.KubeProfiler()
    epoch(prof)
    other = pickle.loads(pickle.dumps(copy.deepcopy(prof)))
    assert other.epoch == 1
    epoch(other)
    scheduler.wait("/end_epoch/", 2)


def test_a_forked_process_has_its_own_queue(inside, scheduler):
    prof = kubeprofiler.KubeProfiler()
    epoch(prof)
    scheduler.wait("/end_epoch/")
    child = os.fork()
    if child == 0:
        epoch(prof)
        from berth._sender import sender

        os._exit(0 if sender.flush(5) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert scheduler.of("/end_epoch/")[-1][2] == {"done": 2}


def test_what_is_queued_leaves_before_the_process_ends(inside, scheduler):
    code = ("from kubernetesdlprofile.kubeprofiler import KubeProfiler as K\np = K()\nfor _ in range(3):\n"
            "  p.start_epoch(); p.measure(); p.measure(); p.end_epoch()\n")
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ, PYTHONPATH=SRC))
    assert scheduler.of("/end_epoch/")[-1][2] == {"done": 3}


@pytest.mark.parametrize("depth", ["shots", "a/b/c"])
def test_root_dir_is_made_with_its_parents(inside, tmp_path, depth):
    inside(BERTH_SNAPSHOTS=str(tmp_path / depth))
    assert os.path.isdir(kubeprofiler.KubeProfiler().root_dir)


def test_a_closed_snapshot_folder_is_not_the_end(inside, tmp_path, capfd):
    (tmp_path / "file").write_text("")
    inside(BERTH_SNAPSHOTS=str(tmp_path / "file"))
    assert os.path.isdir(kubeprofiler.KubeProfiler().root_dir)
    assert "snapshots go to" in capfd.readouterr().err


def test_ckpt_path_is_the_newest_versions_checkpoint(inside, tmp_path):
    root = tmp_path / "shots" / "job-1"
    for version in ("version_2", "version_10", "version_11", "other"):
        (root / "lightning_logs" / version).mkdir(parents=True)
    for version, name in (("version_2", "a.ckpt"), ("version_10", "b.ckpt")):
        (root / "lightning_logs" / version / "checkpoints").mkdir()
        (root / "lightning_logs" / version / "checkpoints" / name).write_text("")
    inside(JOB_RESTARTED="TRUE")
    assert kubeprofiler.KubeProfiler().ckpt_path.endswith("version_10/checkpoints/b.ckpt")
    inside(JOB_RESTARTED="TRUE", JOB_UUID="job-2")
    assert kubeprofiler.KubeProfiler().ckpt_path.endswith("job-2/tf_ckpt")
