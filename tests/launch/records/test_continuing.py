"""The command that continues a run."""

from launch.records.continuing import continue_command


def test_a_run_without_a_checkpoint_cannot_be_continued_and_a_member_only_by_its_sweep(tmp_path) -> None:
    run = tmp_path / "my sweep" / "members" / "3"
    (run / "checkpoints" / "unfinished").mkdir(parents=True)
    assert continue_command(run, "cartpole") == ""
    (run / "checkpoints" / "000001-step-100").mkdir()
    assert continue_command(run, "cartpole") == f"laser train cartpole --resume --run-dir '{run}'"
    assert continue_command(run, "", is_member=True) == f"laser sweep --resume --run-dir '{tmp_path}/my sweep'"
