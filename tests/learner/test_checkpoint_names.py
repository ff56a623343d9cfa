"""Names of checkpoints: written and read back, and told from all other names."""

from learner.checkpoint_names import checkpoint_name, checkpoint_names, number_of, steps_of


def test_a_name_holds_the_number_and_the_env_steps():
    name = checkpoint_name(7, 200_000)
    assert name == "000007-step-200000"
    assert (number_of(name), steps_of(name)) == (7, 200_000)


def test_names_come_newest_first_by_their_numbers_and_others_are_left_out(tmp_path):
    assert checkpoint_names(tmp_path / "none") == []
    names = [checkpoint_name(number, 10 * number) for number in (999_999, 1_000_000, 2)]
    for name in (*names, ".writing-3", "2026-11-backup", "000003-step-", "7-step-70", "000004-step-40-copy"):
        (tmp_path / name).mkdir()
    assert checkpoint_names(tmp_path) == ["1000000-step-10000000", "999999-step-9999990", "000002-step-20"]
