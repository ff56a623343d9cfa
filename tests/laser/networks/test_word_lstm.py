"""The reader of instructions against torch's own LSTM on sequences of their true lengths."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from laser.networks.actor_critic import ActorCritic
from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder, describe_observations
from laser.networks.word_lstm import WORD_STATE, WordLSTM
from laser.specs import CategorySpec, DiscreteActions, EnvironmentSpec, FramesSpec, VectorSpec

INSTRUCTION = CategorySpec(30, (6,))
LSTM = NetworkConfig(words="lstm")


@pytest.fixture
def reader():
    torch.manual_seed(0)
    return WordLSTM(30, 5)


@pytest.fixture
def words():
    """Instructions of 1 to 6 words, and none without any."""
    generator = np.random.default_rng(0)
    found = np.zeros((40, 6), np.int32)
    for row in found:
        length = generator.integers(1, 7)
        row[:length] = generator.integers(1, 30, length)
    assert set((found > 0).sum(1)) == set(range(1, 7))
    return torch.from_numpy(found)


def torchs_own(reader, words):
    """Return the last state of `nn.LSTM`, which has the same weights with the gates in its own order."""
    size = WORD_STATE
    lstm = nn.LSTM(5, size, batch_first=True)
    input_gate, forget, output, update = (slice(k * size, (k + 1) * size) for k in range(4))

    def in_its_order(values):
        return torch.cat([values[part] for part in (input_gate, forget, update, output)])

    with torch.no_grad():
        lstm.weight_ih_l0.copy_(in_its_order(reader.cell.input_weight))
        lstm.weight_hh_l0.copy_(in_its_order(reader.cell.state_weight.T))
        lstm.bias_ih_l0.copy_(in_its_order(reader.cell.bias))
        lstm.bias_hh_l0.zero_()
    packed = pack_padded_sequence(
        reader.embedding(words.long()), (words > 0).sum(1), batch_first=True, enforce_sorted=False
    )
    return lstm(packed)[1][0][0]


def test_the_features_are_the_state_after_the_last_word(reader, words):
    torch.testing.assert_close(reader(words), torchs_own(reader, words), rtol=1e-5, atol=1e-6)
    # The data can tell: a reader that goes on over the zeros ends elsewhere.
    padded = nn.functional.pad(words, (0, 3))
    torch.testing.assert_close(reader(padded), reader(words), rtol=0, atol=0)
    assert not torch.allclose(reader(words.flip(1).contiguous()), reader(words)), "the order of words matters"


def test_gradients_are_those_of_torchs_own(reader, words):
    torch.manual_seed(1)
    weights = torch.randn(40, WORD_STATE)
    (reader(words) * weights).sum().backward()
    found = reader.embedding.weight.grad.clone()
    reader.zero_grad()
    (torchs_own(reader, words) * weights).sum().backward()
    torch.testing.assert_close(found, reader.embedding.weight.grad, rtol=1e-4, atol=1e-5)
    assert (found[0] == 0).all(), "0 is no word"
    assert (found[1:].abs().sum(1) > 0).any()


def test_without_words_there_is_nothing_to_know(reader):
    nothing = torch.zeros(3, 6, dtype=torch.int32)
    assert (reader(nothing) == 0).all()
    reader(nothing).sum().backward()
    assert all(torch.isfinite(weights.grad).all() for weights in reader.parameters())


def test_the_encoder_reads_instead_of_setting_side_by_side(words):
    observations = {"frame": FramesSpec((24, 24, 3)), "instruction": INSTRUCTION, "speed": VectorSpec((2,))}
    flat, read = ObservationEncoder(observations, NetworkConfig()), ObservationEncoder(observations, LSTM)
    assert flat.num_features - read.num_features == 6 * 20 - WORD_STATE
    seen = {
        "frame": torch.zeros(40, 3, 24, 24, dtype=torch.uint8),
        "instruction": words,
        "speed": torch.arange(80.0).view(40, 2),
    }
    features = read(seen)
    assert features.shape == (40, read.num_features)
    (reader,) = read.embeddings
    torch.testing.assert_close(features[:, -WORD_STATE - 2 : -2], reader(words), rtol=0, atol=0)
    assert torch.equal(features[:, -2:], seen["speed"])
    assert [name for name in flat.state_dict() if "embedding" in name] == ["embeddings.0.weight"], "as in saved runs"
    assert "instruction is 6 values of 30 (lstm)" in describe_observations(observations, LSTM)


def test_without_arrays_of_categories_it_is_refused():
    for observations in ({"state": VectorSpec((3,))}, {"cue": CategorySpec(4)}):
        with pytest.raises(
            ValueError, match=r"^network.words: lstm reads arrays of categories, and there are none; use"
        ):
            ObservationEncoder(observations, LSTM)
        ObservationEncoder(observations, NetworkConfig())


@pytest.mark.parametrize("core", ["none", "preco"])
def test_an_agent_learns_what_only_the_order_of_words_says(core):
    """Two words in either order: the right action is the number of the first, also behind a memory."""
    torch.manual_seed(0)
    environment = EnvironmentSpec("Words-v0", {"instruction": CategorySpec(3, (4,))}, DiscreteActions(2))
    network = ActorCritic(environment, NetworkConfig(words="lstm", core=core, core_size=16, hidden_sizes=(16,)))
    words = torch.tensor([[[1, 2, 0, 0], [2, 1, 0, 0]]], dtype=torch.int32)
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(60):
        state = {
            name: torch.zeros(2, *spec.shape)
            for name, spec in NetworkConfig(core=core, core_size=16).core_state.items()
        }
        output = network(
            {"instruction": words},
            torch.zeros(1, 2, dtype=torch.int64),
            torch.zeros(1, 2),
            torch.ones(1, 2, dtype=torch.bool),
            state,
        )
        loss = nn.functional.cross_entropy(output.policy["logits"][0], torch.tensor([0, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1
