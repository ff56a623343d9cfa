import math

import pytest

from laser.config import ConfigError, find_problems
from laser.specs import (
    ContinuousActions,
    DiscreteActions,
    EnvironmentSpec,
    FramesSpec,
    MultiDiscreteActions,
    VectorSpec,
)
from launch.command_line.arguments import parse_train
from launch.presets import TASKS, find_presets, load_preset, recommend, recommend_for
from launch.settings.train_config import TrainConfig


def test_the_presets_of_the_first_agent_are_there():
    assert {"cartpole", "impala_cartpole", "pong", "impala_pong", "hopper", "halfcheetah", "atari"} <= set(
        find_presets()
    )


@pytest.mark.parametrize("name", find_presets())
def test_every_preset_is_a_right_config_with_a_line_of_help(name):
    config = load_preset(name)
    assert isinstance(config, TrainConfig)
    assert config.preset == name
    assert list(find_problems(config)) == []
    assert list(config.warnings()) == []
    assert find_presets()[name].endswith((".", "game"))
    assert len(find_presets()[name]) < 110


def test_the_large_presets_have_the_papers_constants():
    """Schmitt et al. 2020, section 5 and appendix A."""
    atari, dmlab = load_preset("atari"), load_preset("dmlab30")
    assert (atari.unroll_length, dmlab.unroll_length) == (19, 79)
    assert (atari.algorithm.num_online, atari.algorithm.num_replayed) == (32, 128)
    assert dmlab.algorithm.num_replayed == 7 * dmlab.algorithm.num_online
    assert (atari.algorithm.discount, atari.algorithm.max_gradient_norm) == (0.995, math.inf)
    assert atari.algorithm.learning_rate in (3e-4, 6e-4, 1.2e-3)
    assert atari.algorithm.entropy_cost in (5e-3, 1e-2, 2e-2)
    assert atari.algorithm.learning_rate_schedule == "constant"
    assert (atari.network.torso, atari.network.width, atari.network.core) == ("impala_resnet", 4, "none")
    assert (atari.environment.max_noops, atari.environment.max_episode_frames) == (37, 30 * 60 * 60)
    assert dmlab.network.core == "preco"
    # Inside the root, as TensorFlow adds them; here they are added outside.
    for preset, inside in ((atari, 0.01), (dmlab, 0.1), (load_preset("acer"), 1e-5)):
        assert preset.algorithm.optimizer_epsilon == pytest.approx(math.sqrt(inside), rel=0.02)
    assert dmlab.algorithm.popart
    assert dmlab.algorithm.pixel_control_cost > 0


def test_acers_presets_have_the_papers_constants():
    """Wang et al. 2017, sections 4, 5.3 and 6.1."""
    atari, continuous = load_preset("acer"), load_preset("acer_continuous")
    assert (atari.network.torso, atari.environment.fire_at_reset) == ("nature_cnn", False)
    for preset, num_steps in ((atari, 20), (continuous, 50)):
        assert (preset.num_envs, preset.unroll_length, preset.algorithm.discount) == (16, num_steps, 0.99)
    assert (atari.algorithm.truncation, atari.algorithm.average_rate, atari.algorithm.replay_ratio) == (10.0, 0.01, 4)
    assert (continuous.algorithm.truncation, continuous.algorithm.average_rate) == (5.0, 0.005)
    assert (continuous.algorithm.num_samples, continuous.network.initial_std) == (5, 0.3)
    assert 1e-4 <= continuous.algorithm.learning_rate <= 10**-3.3
    assert 0.1 <= continuous.algorithm.trust_region <= 2.0
    assert (continuous.algorithm.std, continuous.algorithm.critic_cost) == ("fixed", 1.0)
    assert continuous.replay.capacity_steps == 16 * 5_000
    assert continuous.replay.samples_per_insert == 4.0


def test_reactors_preset_has_the_papers_network():
    """Gruslys et al. 2017, figure 1 and table 1."""
    network = load_preset("reactor").network
    assert (network.torso, network.core, network.core_size) == ("crelu_cnn", "lstm_features", 128)


@pytest.mark.parametrize("name", ["racer", "v_racer", "ddpg", "naf"])
def test_refers_presets_have_the_papers_constants(name):
    """Novati and Koumoutsakos 2019, table 1 and section 3."""
    preset = load_preset(name)
    assert preset.algorithm.refer.anneal_beta_rate
    assert preset.algorithm.refer.beta_rate == preset.algorithm.learning_rate == 1e-4
    assert getattr(preset.algorithm, "refresh", "per_sample") == "per_sample"
    assert (preset.algorithm.refer.c, preset.algorithm.refer.tolerance, preset.algorithm.discount) == (4.0, 0.1, 0.995)
    assert (preset.replay.capacity_steps, preset.replay.min_steps) == (2**19, 2**18)


def test_hyphens_are_the_same_as_underscores():
    assert load_preset("impala-pong") == load_preset("impala_pong")


@pytest.mark.parametrize("name", ["", "no-such", "../config", "__init__", "os"])
def test_what_is_no_preset_is_not_imported(name):
    with pytest.raises(ConfigError, match="there is no preset"):
        load_preset(name)


def test_every_preset_is_listed_once_under_its_kind_of_task():
    assert sorted(name for names in TASKS.values() for name in names) == sorted(find_presets())


@pytest.mark.parametrize(
    ("env", "preset"),
    [
        ("CartPole-v1", "cartpole"),
        ("MinAtar/Seaquest-v1", "minatar"),
        ("ALE/Asterix-v5", "atari_small"),
        ("dmlab/rooms_watermaze", "dmlab30"),
        ("mini/Catch-v0", "mini"),
        ("dm_control/cartpole-balance-v0", "mujoco"),
        ("Pendulum-v1", "mujoco"),
        ("Acrobot-v1", "box2d"),
    ],
)
def test_the_preset_that_is_recommended_for_an_environment(env, preset):
    assert recommend(env).preset == preset


@pytest.mark.parametrize(
    ("observation", "preset"),
    [
        (VectorSpec((3,)), "box2d"),
        (FramesSpec((7, 7, 3)), "minatar"),
        (VectorSpec((7, 7, 3), layout="channels_last"), "minatar"),
        (FramesSpec((96, 96, 3)), "atari_small"),
    ],
)
def test_spaces_decide_for_environments_of_ones_own(observation, preset):
    spec = EnvironmentSpec("own", {"observation": observation}, DiscreteActions(3))
    assert recommend_for(spec).preset == preset
    spec = EnvironmentSpec("own", {"observation": observation}, ContinuousActions((-1.0,), (1.0,), (1,)))
    assert recommend_for(spec).preset == "mujoco"


@pytest.mark.parametrize(
    "actions", [DiscreteActions(3), MultiDiscreteActions((3, 2)), ContinuousActions((-1.0,), (1.0,), (1,))]
)
@pytest.mark.parametrize("observation", [VectorSpec((3,)), FramesSpec((7, 7, 3)), FramesSpec((96, 96, 3))])
def test_what_is_recommended_can_choose_the_environments_actions(observation, actions):
    spec = EnvironmentSpec("own", {"observation": observation}, actions)
    config = load_preset(recommend_for(spec).preset)
    assert config.algorithm.build(spec, config.network)


def test_the_presets_of_ners_have_its_table_b_1():
    """Oh et al. 2021, table B.1, with the tasks' 500,000 env steps and an evaluation at most every 1,000."""
    for name, rate in (("ners_sac", 3e-4), ("ners_td3", 5e-3)):
        config = load_preset(name)
        algorithm, replay = config.algorithm, config.replay
        assert (algorithm.batch_size, algorithm.learning_rate, algorithm.discount) == (128, rate, 0.99)
        assert algorithm.target_rate == 5e-3
        assert (config.network.hidden_sizes, config.network.activation) == ((256, 256), "relu")
        assert (replay.capacity_steps, replay.min_steps, replay.samples_per_insert) == (1_000_000, 5_000, 128.0)
        assert (replay.sampler, replay.priority_exponent, replay.importance_exponent) == ("ners", 0.5, 0.4)
        assert (replay.ners.learning_rate, replay.ners.batch_size, replay.ero.learning_rate) == (1e-4, 128, 1e-4)
        assert (config.steps, config.evaluation.interval, config.evaluation.episodes) == (500_000, 1_000, 1)
    td3 = load_preset("ners_td3").algorithm
    assert (td3.policy_delay, td3.target_interval) == (2, 1)
    assert (td3.exploration_std, td3.target_noise, td3.target_noise_clip) == (0.1, 0.2, 0.5)


def test_an_environment_of_another_suite_has_none_of_the_preset_s_settings_that_it_does_not_know():
    preset = load_preset("atari_small")
    assert preset.environment.sticky_actions == 0.25
    assert load_preset("atari_small", {"env": "CarRacing-v3"}).environment.sticky_actions == 0.0
    assert load_preset("atari_small", {"env": "ALE/Breakout-v5"}).environment.sticky_actions == 0.25
    asked = load_preset("atari_small", {"env": "CarRacing-v3", "environment.sticky_actions": 0.5})
    assert asked.environment.sticky_actions == 0.5, "it stays, so that a warning names it"


def test_the_command_line_drops_them_too_but_not_what_is_given(tmp_path):
    config = parse_train(["atari_small", "--env", "CarRacing-v3"])
    assert config.environment.sticky_actions == 0.0
    file = tmp_path / "mine.toml"
    file.write_text('env = "CarRacing-v3"\n')
    assert parse_train(["atari_small", "--config", str(file)]).environment.sticky_actions == 0.0
    file.write_text('env = "CarRacing-v3"\n[environment]\nsticky-actions = 0.5\n')
    assert parse_train(["atari_small", "--config", str(file)]).environment.sticky_actions == 0.5
