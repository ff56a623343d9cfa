"""LSTM cells number by number in float64 NumPy, one environment at a time, without the shipped code."""

from __future__ import annotations

import math

import numpy as np


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def literal_cell(gates, state_weight, hidden, cell):
    """One step for one environment: gates [4H] from the inputs, in the order input, forget, output, update."""
    size = len(hidden)
    new_hidden, new_cell = np.zeros(size), np.zeros(size)
    for unit in range(size):
        i, f, o, g = (
            gates[part * size + unit] + sum(hidden[j] * state_weight[j, part * size + unit] for j in range(size))
            for part in range(4)
        )
        new_cell[unit] = sigmoid(f) * cell[unit] + sigmoid(i) * math.tanh(g)
        new_hidden[unit] = sigmoid(o) * math.tanh(new_cell[unit])
    return new_hidden, new_cell


def literal_lstm(projected, weights, first, hidden, cell, reset="before"):
    """projected [T, K, B, 4H], weights [K, H, 4H] -> h, c [T, K, B, H].

    `reset` is where an episode's beginning clears the state: "before" the row is used; or, wrongly, "after" or "never".
    """
    num_rows, num_cells, batch_size, _ = projected.shape
    size = hidden.shape[-1]
    hiddens, cells = np.zeros((2, num_rows, num_cells, batch_size, size))
    for b in range(batch_size):
        h, c = hidden[b], cell[b]
        for t in range(num_rows):
            if first[t, b] and reset == "before":
                h, c = np.zeros(size), np.zeros(size)
            for k in range(num_cells):
                h, c = literal_cell(projected[t, k, b], weights[k], h, c)
                hiddens[t, k, b], cells[t, k, b] = h, c
            if first[t, b] and reset == "after":
                h, c = np.zeros(size), np.zeros(size)
    return hiddens, cells
