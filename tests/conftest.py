"""Makes the folders of shared test material importable by name; options, order and time limits of the tests.

Tests that need a package which is not installed are left out, after `NEEDS`, and the end of pytest's output says which.
With `--all-packages`, and wherever CI is set, a missing package is an error instead.
"""

import atexit
import importlib.util
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from launch.process_settings import prepare_process

# What tests name is not remembered as named by the user who runs them.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="laser-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
prepare_process()  # before a test imports torch, as the `laser` command does
TESTS = Path(__file__).parent
for folder in ("actors", "golden", "launch", "oracles", "laser/algorithms", "probes"):
    sys.path.insert(0, str(TESTS / folder))

# Modules that tests need besides those that training does. Keys are paths below tests/, or FILE::TEXT for the tests of
# that file whose names, parameters included, contain the text.
NEEDS = {
    "actors/test_film.py": ("imageio_ffmpeg",),
    "contracts/test_environments.py::Hopper-v5": ("mujoco",),
    "contracts/test_environments.py::dm_control/": ("dm_control",),
    "distributed": ("ray",),
    "docs/test_own_tuner.py": ("optuna",),
    "docs/test_ray_tuner.py": ("optuna", "ray", "pandas", "pyarrow", "tensorboardX"),
    "docker/test_monitoring.py": ("yaml",),
    "docs/test_notebooks.py": ("ipykernel", "matplotlib", "nbclient", "nbformat"),
    "laser/environments/test_dm_control.py": ("dm_control",),
    "laser/environments/test_minatar.py": ("minatar",),
    "laser/environments/test_minigrid.py": ("minigrid",),
    "laser/environments/test_sparse_pendulum.py::test_the_other_environments_of_the_paper_run": ("Box2D",),
    "launch/command_line/test_cli.py::test_an_address_of_a_cluster_chooses_the_runtime": ("ray",),
    "launch/bench/gpu_steps/test_updates.py::test_the_shapes_that_need_no_mujoco": ("mujoco",),
    "launch/dashboard/test_browser.py": ("dash", "dash_ag_grid", "selenium"),
    "launch/dashboard/test_accessible.py": ("axe_core_python", "dash", "dash_ag_grid", "selenium"),
    "launch/dashboard/test_action_names.py::atari": ("ale_py",),
    "launch/dashboard/test_address.py": ("dash",),
    "launch/dashboard/test_guard.py": ("dash",),
    "launch/dashboard/test_library.py::leaves_runs_out": ("dash", "dash_ag_grid"),
    "launch/dashboard/test_live.py::test_a_trained_agent_plays_whole_episodes": ("pygame",),
    "launch/dashboard/test_importance.py::settings": ("sklearn",),
    "launch/dashboard/test_run_panels.py": ("dash", "dash_ag_grid", "selenium"),
    "launch/dashboard/test_settings_pages.py": ("dash", "dash_ag_grid", "selenium", "sklearn"),
    "launch/dashboard/test_saved_data.py": ("dash", "dash_ag_grid", "matplotlib", "selenium"),
    "launch/dashboard/test_shared_links.py": ("dash", "dash_ag_grid", "selenium"),
    "launch/dashboard/test_sweep_page.py": ("dash", "dash_ag_grid", "selenium"),
    "launch/dashboard/test_server.py": ("dash", "dash_ag_grid"),
    "launch/dashboard/test_views.py": ("dash", "dash_ag_grid", "selenium"),
    "launch/evaluation/test_evaluate.py::test_a_member_whose_environment_raises": ("imageio_ffmpeg", "pygame"),
    "launch/evaluation/test_evaluate.py::test_a_full_disk_is_every_members": ("imageio_ffmpeg", "pygame"),
    "launch/evaluation/test_play.py": ("pygame",),
    "launch/export/test_export.py::onnx": ("onnx", "onnxscript", "onnxruntime"),
    "launch/records/test_videos.py": ("imageio_ffmpeg", "pygame"),
    "launch/recording/test_event_file.py": ("tensorboard",),
    "launch/recording/test_process_usage.py::test_the_use_of_a_gpu": ("pynvml",),
    "launch/recording/test_process_usage.py::test_a_driver": ("pynvml",),
    "launch/recording/test_recorder.py": ("tensorboard",),
    "launch/report": ("matplotlib",),
    "launch/report/test_report_in_browser.py": ("axe_core_python", "imageio_ffmpeg", "pygame", "selenium"),
    "launch/reproductions/test_reproduce.py": ("matplotlib",),
    "launch/runtimes/test_ray_loopback.py": ("ray",),
    "launch/settings/test_own_environments.py::test_what_processes_cannot_import": ("ray",),
    "launch/sharing": ("huggingface_hub", "matplotlib"),
    "launch/supervision/test_tracking.py": ("tensorboard",),
    "launch/supervision/test_tracking.py::test_all_trackers_are_closed_at_the_same_time": ("wandb",),
    "launch/supervision/test_tracking.py::test_a_real_run_offline": ("imageio_ffmpeg", "pygame", "wandb"),
    "launch/planning/test_gpu_memory.py::test_on_ray_a_learner_has_a_gpu": ("ray",),
    "launch/planning/test_computing.py::test_auto_takes_a_gpu_where_it_pays": ("ray",),
    "launch/planning/test_computing.py::test_without_a_gpu_there_is_nothing_to_say": ("ray",),
    "launch/planning/test_computing.py::test_cores_that_are_busy_are_told_of_where": ("ray",),
    "launch/planning/test_computing.py::test_learners_share_the_cores_with_their_actors": ("mujoco",),
    "launch/planning/test_computing.py::test_a_gpu_that_lockstep_leaves_idle_is_told_of": ("mujoco",),
    "launch/planning/test_computing.py::test_cores_that_are_busy_are_told_of": ("mujoco",),
    "launch/sweeps/test_optuna_search.py": ("optuna",),
    "launch/test_step_runs.py::test_only_single_steps_are_drawn_several_batches_at_a_time[racer-": ("mujoco",),
    "launch/test_train.py::test_threads_make_their_steps_and_leave_everything_behind": ("tensorboard",),
}
NO_TIME = "there was no time left for it"
GPU_TIMEOUT_S = 300  # the first compilation of an update takes a minute or two

absent = {module for modules in NEEDS.values() for module in modules if importlib.util.find_spec(module) is None}


def pytest_addoption(parser):
    parser.addoption("--write-golden", action="store_true", help="keep the losses of today as the golden ones")
    parser.addoption("--all-packages", action="store_true", help="fail if a package that some tests need is missing")
    parser.addoption("--begin-before", type=float, default=math.inf, help="skip what has not begun by then, Unix time")


def pytest_configure(config):
    if absent and (config.getoption("all_packages") or os.environ.get("CI")):
        modules = ", ".join(sorted(absent))
        raise pytest.UsageError(f"tests need {modules}, not installed here; pip install -e '.[dev]'")


def pytest_ignore_collect(collection_path):
    return bool(missing_for(collection_path.relative_to(TESTS).as_posix())) or None


def pytest_collection_modifyitems(items):
    # Last: Ray's processes stay until pytest ends, and take a third of a core from the tests after them.
    items.sort(key=lambda item: item.get_closest_marker("ray") is not None)
    for item in items:
        if item.get_closest_marker("ray") or "browser" in item.fixturenames:
            item.add_marker(pytest.mark.alone)
        missing = missing_for(item.path.relative_to(TESTS).as_posix(), item.name)
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}, which is not installed"))
        if item.get_closest_marker("gpu") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(GPU_TIMEOUT_S))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if time.time() > item.config.getoption("begin_before"):
        pytest.skip(NO_TIME)


def pytest_terminal_summary(terminalreporter):
    late = [each.nodeid for each in terminalreporter.stats.get("skipped", []) if NO_TIME in str(each.longrepr)]
    if late:
        terminalreporter.section(f"not run, since time was over: {len(late)}")
    for name in late:
        terminalreporter.line(name)
    missing = {place: sorted(absent.intersection(modules)) for place, modules in NEEDS.items()}
    if any(missing.values()):
        terminalreporter.section("left out, since packages are not installed")
    for place, modules in missing.items():
        if modules:
            terminalreporter.line(f"{place}: needs {', '.join(modules)}")


def missing_for(path, test=""):
    """Return the modules that a path below tests/, or a test in that file, needs and that are not installed."""
    needed = set()
    for place, modules in NEEDS.items():
        needing, _, text = place.partition("::")
        if (path == needing or path.startswith(f"{needing}/")) and (not text or text in test):
            needed.update(modules)
    return sorted(needed & absent)


@pytest.fixture(autouse=True)
def _accounts_balance(request, _made_directories):
    """Every run that a test leaves in its `tmp_path` has accounts whose two sides are equal, however it ended."""
    place = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if place is not None:
        _made_directories.remove(place)
        _assert_balance(place)


@pytest.fixture(scope="session", autouse=True)
def _keeps_its_priority():
    """No test lowers the priority of its process, as the dashboard does: all later tests would run at it."""
    nice = os.nice
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "nice", lambda _: nice(0))
        yield


@pytest.fixture(scope="session", autouse=True)
def _made_directories(tmp_path_factory):
    """Return the list of the directories that `tmp_path_factory` has made and whose runs are not checked yet."""
    made, make = [], tmp_path_factory.mktemp

    def mktemp(*arguments, **options):
        made.append(make(*arguments, **options))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tmp_path_factory, "mktemp", mktemp)
        yield made


@pytest.fixture(scope="module", autouse=True)
def _accounts_of_modules_balance(_made_directories):
    """The same holds of the runs that the tests of a module share, at its end."""
    yield
    while _made_directories:
        _assert_balance(_made_directories.pop())


def _assert_balance(place):
    for path in place.rglob("metrics.db"):
        from balances import imbalances_in

        assert not imbalances_in(path), f"{path}: {imbalances_in(path)}"
