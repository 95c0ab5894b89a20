"""berth: epochs, steps, stopping, metrics, framework callbacks (with stand-ins for the frameworks)."""

import os
import signal
import subprocess
import sys
import types

import pytest

import berth

SRC = os.path.join(os.path.dirname(__file__), "..", "src")


def test_a_loop_outside_berth_just_runs():
    seen = [(epoch, sum(berth.steps([1, 2, 3]))) for epoch in berth.epochs()]
    berth.log(loss=1.0)
    assert seen == [(0, 6)] and not berth.should_stop()


def test_epochs_go_on_where_the_last_run_ended(inside, scheduler):
    inside(EPOCHS_DONE="1", JOB_RESTARTED="TRUE")
    assert berth.restarted()
    assert list(berth.epochs()) == [1, 2]
    scheduler.wait("/end_epoch/")
    berth.flush()
    assert scheduler.of("/end_epoch/")[-1][2] == {"done": 3}


def test_a_stop_ends_the_script_after_the_body(inside, scheduler):
    saved = []
    with pytest.raises(SystemExit) as left:
        for epoch in berth.epochs():
            scheduler.stop = "1"
            saved.append(epoch)
    assert left.value.code == 0 and saved == [0]
    assert scheduler.of("/has_to_stop/")[0][1] == "/has_to_stop/job-1?epoch=1"
    assert scheduler.wait("/end_epoch/")[0][2] == {"done": 1}


def test_with_exit_false_only_the_loop_ends(inside, scheduler):
    scheduler.stop = "1"
    assert list(berth.epochs(exit=False)) == [0]
    assert berth.should_stop()


def test_context_managers_count_what_ends_well(inside, scheduler):
    with berth.epoch() as number:
        for _ in range(3):
            with berth.step():
                pass
    with pytest.raises(ValueError):
        with berth.epoch():
            raise ValueError
    assert number == 0 and berth.job().done == 1 and berth.job().step_count == 3


def test_term_ends_at_the_epoch():
    code = ("import berth, os, signal\nos.environ.update(EPOCHS_TO_BE_DONE='5')\n"
            "for e in berth.epochs():\n"
            "  if e == 1: os.kill(os.getpid(), signal.SIGTERM)\n"
            "  print('body', e, flush=True)\n")
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=SRC), capture_output=True,
                          text=True)
    assert done.returncode == 143 and done.stdout == "body 0\nbody 1\n", "nobody asked for it: not a success"
    assert "stopping after 2 of 5 epochs" in done.stderr


def test_term_ends_forked_children():
    code = ("import berth, multiprocessing, os, signal, time\nos.environ.update(EPOCHS_TO_BE_DONE='1')\n"
            "for e in berth.epochs():\n"
            "  child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,), daemon=True)\n"
            "  child.start()\n"
            "  child.terminate()\n"
            "  child.join(20)\n"
            "  print(child.exitcode, flush=True)\n"
            "  os._exit(0)\n")
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=SRC), capture_output=True,
                          text=True, timeout=60)
    assert done.stdout == "-15\n", done.stderr


def test_several_processes_leave_one_epoch_after_they_heard(inside, scheduler, monkeypatch):
    """One of them may get the answer late: by the next epoch's end all have it."""
    berth.job()._wire.alone = False
    scheduler.stop = "1"
    bodies = []
    with pytest.raises(SystemExit) as left:
        for epoch in berth.epochs():
            bodies.append(epoch)
            assert berth.flush(5)
    assert left.value.code == 0 and bodies == [0, 1]


def test_a_handler_of_the_scripts_own_stays():
    before = signal.signal(signal.SIGTERM, lambda *rest: None)
    try:
        assert not berth.job().watch_term()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_metrics_arrive_in_batches(inside, scheduler):
    class Tensor:
        def detach(self):
            return self

        def clone(self):
            return self

        def __float__(self):
            return 0.5

    for i in range(100):
        berth.log(loss=float(i), bad=float("nan"), tensor=Tensor(), text="no number")
    assert berth.flush(5)
    calls = scheduler.of("/v1/train/job-1/log")
    records = [it for call in calls for it in call[2]["records"]]
    assert len(records) == 100 and len(calls) < 20
    assert records[0]["time"].endswith("Z") and records[7]["step"] == 0
    assert records[7]["values"] == {"loss": 7.0, "tensor": 0.5} and calls[0][2]["rank"] == 0


def test_steps_go_on_where_the_last_run_ended(inside, scheduler):
    inside(EPOCHS_DONE="1", JOB_RESTARTED="TRUE", BERTH_STEPS_DONE="50")
    with berth.step():
        pass
    berth.log(loss=1.0)
    assert berth.flush(5)
    assert scheduler.of("/v1/train/job-1/log")[0][2]["records"][0]["step"] == 51


def test_snapshot_path_makes_its_folder(inside):
    path = berth.snapshot_path("deep/er/model.pt")
    assert os.path.isdir(os.path.dirname(path)) and path.startswith(berth.snapshot_dir())


class Callback:
    model = None


def test_keras_callback_stops_and_saves(inside, scheduler, monkeypatch, tmp_path):
    callbacks = types.ModuleType("keras.callbacks")
    callbacks.Callback = Callback
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.setitem(sys.modules, "keras", types.ModuleType("keras"))
    monkeypatch.setitem(sys.modules, "keras.callbacks", callbacks)
    from berth import keras

    scheduler.stop = "1"
    cb = keras.callback(weights=str(tmp_path / "w.h5"))
    cb.model = types.SimpleNamespace(save_weights=lambda path: open(path, "w").close(), stop_training=False)
    cb.on_train_begin()
    cb.on_epoch_begin(0)
    cb.on_train_batch_end(0)
    cb.on_epoch_end(0, {"loss": 0.25})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert cb.model.stop_training and (tmp_path / "w.h5").exists()
    assert berth.flush(5)
    assert scheduler.of("/v1/train/")[0][2]["records"][0]["values"] == {"loss": 0.25}


def test_lightning_callback_stops(inside, scheduler, monkeypatch):
    lightning = types.ModuleType("pytorch_lightning")
    lightning.Callback = Callback
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", lightning)
    from berth.lightning import callback

    scheduler.stop = "1"
    trainer = types.SimpleNamespace(current_epoch=0, callback_metrics={"train_loss": 0.5}, should_stop=False)
    cb = callback()
    cb.on_train_start(trainer, None)
    cb.on_train_epoch_start(trainer, None)
    cb.on_train_batch_end(trainer, None, None, None, 0)
    cb.on_train_epoch_end(trainer, None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert trainer.should_stop and berth.job().done == 1


def test_frameworks_are_imported_only_when_used():
    code = "import sys, berth, berth.pytorch, berth.lightning, berth.keras\nprint([m for m in sys.modules if m in " \
           "('torch', 'tensorflow', 'keras', 'lightning', 'pytorch_lightning')])"
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=SRC), capture_output=True,
                          text=True, check=True)
    assert done.stdout == "[]\n"
