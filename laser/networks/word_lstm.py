"""An LSTM that reads the words of an instruction."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from laser.networks.recurrent import LSTMWeights
from laser.ops.lstm import lstm_scan

WORD_STATE = 64
"""Width of the state, and so the number of features."""


class WordLSTM(nn.Module):
    """Embed each word, read them one after the other, and return the state after the last one.

    Words are numbers from 1 on, 0 fills the rest; without any word the features are 0. The state begins at 0 for every
    row: an instruction is read anew at each step, so nothing has to be kept between steps.

    Args:
        num_values: number of different words, and one for 0.
        embedding_size: features per word.

    Source:
        Espeholt et al. 2018 (IMPALA), figure 3 and the published code: 20 features per word and an LSTM of 64.
    """

    def __init__(self, num_values: int, embedding_size: int):
        super().__init__()
        self.embedding = nn.Embedding(num_values, embedding_size)
        self.cell = LSTMWeights(embedding_size, WORD_STATE)

    def forward(self, words: Tensor) -> Tensor:
        """Map int [N, ...] to [N, 64]."""
        words = words.flatten(1).long()
        num_rows, num_words = words.shape
        projected = self.cell(self.embedding(words.T))
        start = projected.new_zeros(num_rows, WORD_STATE)
        never = torch.zeros(num_words, num_rows, dtype=torch.bool, device=words.device)
        hidden, _ = lstm_scan(projected.unsqueeze(1), self.cell.state_weight.unsqueeze(0), never, start, start)
        lengths = (words > 0).sum(1)
        last = (lengths - 1).clamp_min(0).view(1, -1, 1).expand(1, num_rows, WORD_STATE)
        return torch.where((lengths > 0).unsqueeze(-1), hidden[:, 0].gather(0, last).squeeze(0), 0.0)
