import json
import math
import mmap

import pytest

from laser.config import ConfigError
from launch.__main__ import main
from launch.bench import find_benches, load_bench
from launch.bench.learner import kernel_work


def test_the_benches_are_found_with_a_line_of_help():
    assert {"actor", "learner", "replay", "pipeline"} <= set(find_benches())
    assert all(len(text) > 20 for text in find_benches().values())


@pytest.mark.parametrize("name", sorted(set(find_benches()) - {"gpu", "chaos"}))
def test_every_bench_measures_and_names_its_bottleneck(name, capsys):
    # A whole program reports twice a second; its parts are counted directly.
    seconds = "2.0" if name == "pipeline" else "0.05"
    options = ["--preset", "cartpole", "--seconds", seconds, "--json"]
    assert main(["bench", name, *options]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["preset"] == "cartpole"
    assert "cores" in result["machine"]
    assert result["bottleneck"].split()[0] in ("environment", "inference", "replay", "transfer", "learner")
    rates = [value for key, value in result.items() if key.endswith("_per_second")]
    assert rates
    assert all(math.isfinite(rate) and rate > 0 for rate in rates)


@pytest.mark.parametrize(("words", "runtime"), [([], "lockstep"), (["--runtime", "local"], "local")])
def test_the_whole_program_runs_as_its_preset_says_or_otherwise(words, runtime, capsys):
    assert main(["bench", "pipeline", "--preset", "cartpole", "--seconds", "1.0", "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["runtime"] == runtime


def test_a_loss_that_calls_autograd_itself_is_counted_too(capsys):
    assert main(["bench", "learner", "--preset", "sac_pendulum", "--seconds", "0.05", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["tflops_per_second"] > 0


@pytest.mark.parametrize("num_pages", [0, 500])
def test_pages_that_the_kernel_hands_out_are_counted(num_pages):
    def touch():
        with mmap.mmap(-1, max(1, num_pages) * mmap.PAGESIZE) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(num_pages):
                memory[page * mmap.PAGESIZE] = 1

    assert num_pages <= kernel_work(touch, times=10)["page_faults"] < num_pages + 100


def test_results_are_printed_with_their_units(capsys):
    assert main(["bench", "actor", "--preset", "cartpole", "--seconds", "0.01", "--num-envs", "2"]) == 0
    out = capsys.readouterr().out
    assert "num envs: 2\n" in out
    assert "inference env steps per second: " in out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "error: bench: a name is missing; benches are "),
        (["learnr"], "error: bench: there is no bench 'learnr'; did you mean learner?"),
        (["learner", "--second", "1"], "error: second: unknown key; did you mean seconds?"),
        (["learner", "--seconds", "0"], "error: seconds: must be above 0 and at most 1000000, got 0.0"),
        (["learner", "--preset", "pongg"], "error: preset: there is no preset 'pongg'; did you mean pong?"),
        (["--device", "tpu", "--preset", "pong", "learner"], "error: device: must be auto, cpu, cuda or cuda:N"),
        (["--json", "--seconds", "0", "learner"], "error: seconds: must be above 0 and at most 1000000, got 0.0"),
        (["learner", "--device", "tpu"], "error: device: must be auto, cpu, cuda or cuda:N"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, line):
    assert main(["bench", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith(line)
    assert len(err.splitlines()) == 1


def test_help(capsys):
    assert main(["bench", "--help"]) == 0
    assert "  learner  " in capsys.readouterr().out
    assert main(["bench", "learner", "--help"]) == 0
    assert "--batch-size N" in capsys.readouterr().out


def test_what_is_no_bench_is_not_imported():
    with pytest.raises(ConfigError, match="there is no bench"):
        load_bench("../cli")
