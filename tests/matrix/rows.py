"""The capture matrix: each kind of launch and loop, and what its recording must show.

A row is one call of `tests/matrix/test_matrix.py`. Rows that take long, or need packages that are no dependency, run
in `make matrix`; rows marked gpu where a GPU is. `tests/matrix/collect.py --table` writes the table of docs/capture.md
from the results of runs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """What to launch, and what must come of it. Everything else is the same for all: see `test_matrix`."""

    name: str
    title: str
    words: tuple[str, ...]
    """`loops`, `ranks` and `frameworks` stand for the scripts, `torchrun`, `accelerate`, `python` for the programs."""
    kind: str = "command"
    status: int = 0
    ranks: int = 1
    complete: bool = True
    reason: str = ""
    """Must be in the reason, or in a note."""
    source: str | None = "optimizer"
    per_step: tuple[float, ...] | None = None
    """How often each optimizer steps per step."""
    clean: int | None = 5
    """Clean steps in each trace; None where that is not fixed."""
    slow: bool = True
    gpus: int = 0
    needs: tuple[str, ...] = ()
    """Packages."""
    stdout: bool = True
    """What it prints is the same with us and without."""


def _loop(name: str, title: str, steps: int = 60, **more: object) -> Row:
    return Row(name, title, ("python", "loops", name, str(steps)), **more)  # type: ignore[arg-type]


def _run(count: int, *words: str) -> tuple[str, ...]:
    return ("torchrun", "--standalone", f"--nproc-per-node={count}", *words)


ROWS = (
    _loop("plain", "plain script", slow=False),
    Row("module", "`-m package.train`", ("-m", "package.train", "60"), slow=False),
    Row("shell", "`bash run.sh`, which starts Python and fails afterwards", ("bash", "run.sh"), status=4, slow=False),
    _loop("gan", "GAN: three critic steps and one generator step are one step", per_step=(3, 1)),
    _loop("accumulation", "gradient accumulation over four micro-batches", per_step=(1,)),
    _loop("scaler", "GradScaler that skips every fifth step"),
    _loop("lbfgs", "LBFGS, which evaluates several times per step"),
    _loop("in_backward", "optimizers stepped inside backward", slow=False),
    _loop("by_hand", "update written by hand (steps by the DataLoader)", 140, source="dataloader"),
    _loop("evaluation", "evaluation only (steps by the DataLoader)", source="dataloader", slow=False),
    _loop("no_steps", "no optimizer, loader or backward: a window of time", 120, source=None, clean=None,
          reason="no training step was seen"),
    _loop("compiled", "`torch.compile`, without a further compilation", needs=("compiler",)),
    _loop("compiled_step", "optimizer's step inside `torch.compile`, without a further graph break"),
    _loop("own_profiler", "script with its own profiler, which keeps its trace", complete=False, ranks=0, clean=None,
          reason="profiles itself", source=None),
    _loop("fork_loader", "forked DataLoader workers, started anew inside the window", 200),
    _loop("spawn_loader", "spawned DataLoader workers", 60, clean=None),
    _loop("out_of_memory", "out of memory inside the window", 60, status=1, complete=False, clean=None,
          reason="the script ended"),
    Row("torchrun_1", "torchrun, one rank", _run(1, "ranks", "ddp", "80")),
    Row("torchrun_2", "torchrun, DDP on two ranks", _run(2, "ranks", "ddp", "80"), ranks=2),
    Row("torchrun_4", "torchrun, DDP on four ranks", _run(4, "ranks", "ddp", "80"), ranks=4),
    Row("rank_killed", "one of two ranks killed by SIGKILL inside the window",
        _run(2, "ranks", "ddp", "80", "kill", "1", "24"),
        status=1, ranks=1, complete=False, clean=None, reason="rank 1 left no recording", stdout=False),
    Row("restart", "elastic restart after a failure inside the window",
        (*_run(2), "--max-restarts=1", "ranks", "solo", "80", "raise", "1",
            "24"),
        ranks=4, complete=False, clean=None, reason="the script ended", stdout=False),
    Row("spawn", "`torch.multiprocessing.spawn`, two ranks", ("python", "ranks", "spawn", "80"), ranks=2),
    Row("accelerate", "`accelerate launch`, accumulating over two micro-batches",
        ("accelerate", "launch", "--num_processes=1", "frameworks", "accelerate", "200"), needs=("accelerate",)),
    Row("lightning", "Lightning, one process", ("python", "frameworks", "lightning", "200"),
        needs=("pytorch_lightning",)),
    Row("lightning_ddp", "Lightning, ddp on two ranks", ("python", "frameworks", "lightning_ddp", "200"), ranks=2,
        needs=("pytorch_lightning",)),
    Row("trainer", "Hugging Face Trainer, accumulating over two micro-batches",
        ("python", "frameworks", "trainer", "200"), needs=("transformers", "accelerate")),
    # ------------------------------------------------------------------------------------------------ with a GPU
    _loop("plain@gpu", "plain script", gpus=1),
    _loop("scaler@gpu", "GradScaler that skips every fifth step", gpus=1),
    _loop("in_backward@gpu", "optimizers stepped inside backward", gpus=1),
    _loop("compiled@gpu", "`torch.compile` (inductor)", gpus=1),
    _loop("cuda_graph@gpu", "a step captured into a CUDA graph (steps by the DataLoader)", 160, gpus=1,
          source="dataloader"),
    _loop("own_profiler@gpu", "script with its own profiler, which keeps its trace", gpus=1, complete=False, ranks=0,
          clean=None, reason="profiles itself", source=None),
    _loop("fork_loader@gpu", "forked DataLoader workers, started anew inside the window", 200, gpus=1),
    _loop("out_of_memory@gpu", "out of memory inside the window", gpus=1, status=1, complete=False, clean=None,
          reason="the script ended"),
    _loop("no_steps@gpu", "no optimizer, loader or backward: a window of time", 120, gpus=1, source=None, clean=None,
          reason="no training step was seen"),
    Row("accelerate@gpu", "`accelerate launch`, accumulating over two micro-batches",
        ("accelerate", "launch", "--num_processes=1", "frameworks", "accelerate", "200"), needs=("accelerate",),
        gpus=1),
    Row("lightning@gpu", "Lightning, one process", ("python", "frameworks", "lightning", "200"),
        needs=("pytorch_lightning",), gpus=1),
    Row("trainer@gpu", "Hugging Face Trainer, accumulating over two micro-batches",
        ("python", "frameworks", "trainer", "200"), needs=("transformers", "accelerate"), gpus=1),
    Row("ddp@gpu", "torchrun, DDP on two GPUs (NCCL)", _run(2, "ranks", "ddp", "80"), ranks=2, gpus=2,
        stdout=False),
    Row("fsdp@gpu", "torchrun, FSDP on two GPUs (NCCL)", _run(2, "ranks", "fsdp", "80"), ranks=2, gpus=2,
        stdout=False),
    Row("lightning_ddp@gpu", "Lightning, ddp on two GPUs", ("python", "frameworks", "lightning_ddp", "200"), ranks=2,
        needs=("pytorch_lightning",), gpus=2, stdout=False),
    # The other rank waits for it in a collective, and only the thread that waits could stop its profiler.
    Row("rank_killed@gpu", "one of two NCCL ranks killed inside the window (the other keeps all but its trace)",
        _run(2, "ranks", "ddp", "80", "kill", "1", "24"),
        status=1, ranks=0, complete=False, clean=None,
        reason="rank 1 left no recording", stdout=False, gpus=2),
)  # fmt: skip

ELSEWHERE = (
    ("stdin, arguments, streams, `__main__`, forked DataLoader workers",
     "tests/capture/test_session.py::test_the_program_cannot_tell"),
    ("exit codes 0, 1, 3, 7 and a killed script: status kept, what was recorded kept",
     "tests/capture/test_session.py::test_however_it_ends_its_status_is_kept_and_what_was_recorded_too"),
    ("an uncaught exception: the same traceback",
     "tests/capture/test_session.py::test_an_uncaught_error_reads_as_without_us"),
    ("`sys.exit(0)`, `sys.exit(3)`, `sys.exit('text')`, an exception, `os._exit(7)` without torch",
     "tests/launch/test_supervisor.py::test_status_and_streams_are_the_programs_own"),
    ("death by SIGTERM (143), SIGSEGV (139), SIGKILL (137)",
     "tests/launch/test_supervisor.py::test_death_by_a_signal_is_our_death_by_it"),
    ("Ctrl-C (130), once, through `profile`",
     "tests/capture/test_launches.py::test_ctrl_c_ends_the_recording_as_it_ends_the_script"),
    ("SIGTERM inside the window while the process hangs in a C call",
     "tests/capture/test_hung_processes.py::test_sigterm_ends_a_process_that_hangs_in_a_c_call"),
    ("read-only current folder, no home",
     "tests/capture/test_launches.py::test_without_home_and_in_a_folder_that_nobody_can_write"),
    ("full disk", "tests/capture/test_disk.py::test_on_a_full_disk_the_job_goes_on_and_the_reason_is_said"),
    ("run folder removed while the script runs",
     "tests/capture/test_disk.py::test_a_run_folder_that_vanishes_hurts_nobody"),
    ("unusable `TMPDIR`", "tests/capture/test_disk.py::test_what_fills_tmpdir_does_not_concern_us"),
    ("a step that records too much",
     "tests/capture/test_recording_limits.py::test_a_step_that_records_much_is_recorded_less_often"),
    ("a step that does not end",
     "tests/capture/test_hung_processes.py::test_a_step_that_does_not_end_closes_the_window"),
    ("two nodes, one Run (`--run-dir`)",
     "tests/capture/test_recording_limits.py::test_parents_of_two_nodes_make_one_run"),
    ("a notebook that `jupyter nbconvert --execute` runs, recorded in its kernel",
     "tests/capture/test_profile_api.py::test_a_notebook_that_knows_nothing_of_us_is_recorded_in_its_kernel"),
    ("a notebook cell with `%%tracelens`, without a browser",
     "tests/capture/test_profile_api.py::test_a_notebook_that_nbconvert_executes_records_its_cell"),
    ("a pass that only reads, then the training",
     "tests/capture/test_forward_only_pass.py::test_a_training_takes_the_place_of_a_pass_that_was_recorded"),
    ("`--ranks`", "tests/capture/test_recording_limits.py::test_only_the_ranks_that_are_wanted_record"),
)  # fmt: skip
"""Rows that are tests of their own: a title, and the test."""
