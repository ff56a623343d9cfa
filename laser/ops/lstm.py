"""The recurrence of LSTMs over the rows of unrolls, with episodes that begin inside them."""

from __future__ import annotations

import torch
from torch import Tensor


def lstm_scan(projected: Tensor, weights: Tensor, first: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Run K LSTM cells one after the other on one shared state, row by row.

        z = projected[t, k] + h W[k];   i, f, o = sigmoid(z[:3H]),  g = tanh(z[3H:])
        c <- f c + i g;   h <- o tanh(c)

    Where `first[t]`, h and c are set to 0 before the row's first cell. The terms of the inputs alone are in
    `projected`, computed for all rows at once; only the sequential part is here. Gradients are exact, also to
    the state before row 0; that of the weights is one matrix product over all rows.

    It is one operation to `torch.compile`: unrolled it would take minutes to compile for 80 rows. An exported program
    has the plain operations, which run without LASER.

    Args:
        projected: [T, K, B, 4H] inputs times their weights, plus biases.
        weights: [K, H, 4H], of the state.
        first: bool [T, B].
        hidden: [B, H] before row 0.
        cell: [B, H] before row 0.

    Returns:
        h and c [T, K, B, H] after each cell of each row.

    Source:
        Hochreiter and Schmidhuber 1997, with forget gates.
    """
    if torch.compiler.is_exporting():
        return plain_lstm_scan(projected, weights, first, hidden, cell)
    hiddens, cells, _ = _forward(projected, weights, first, hidden, cell)
    return hiddens, cells


def plain_lstm_scan(
    projected: Tensor, weights: Tensor, first: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute what `lstm_scan` does, from torch's own operations alone."""
    hiddens, cells = [], []
    keeps = (~first).to(projected.dtype).unsqueeze(-1)
    for t in range(projected.shape[0]):
        hidden, cell = hidden * keeps[t], cell * keeps[t]
        for k in range(projected.shape[1]):
            i, f, o, g = (projected[t, k] + hidden @ weights[k]).chunk(4, -1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            hiddens.append(hidden)
            cells.append(cell)
    rows = projected.shape[:2]
    return torch.stack(hiddens).unflatten(0, rows), torch.stack(cells).unflatten(0, rows)


@torch.library.custom_op("laser::lstm_scan", mutates_args=())
def _forward(
    projected: Tensor, weights: Tensor, first: Tensor, hidden: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    num_rows, num_cells, batch_size, width = projected.shape
    size = width // 4
    gates = torch.empty_like(projected, memory_format=torch.contiguous_format)
    hiddens = projected.new_empty(num_rows, num_cells, batch_size, size)
    cells = torch.empty_like(hiddens)
    keeps = (~first).to(projected.dtype).unsqueeze(-1)
    with torch.autocast(projected.device.type, enabled=False):
        for t in range(num_rows):
            hidden, cell = hidden * keeps[t], cell * keeps[t]
            for k in range(num_cells):
                z = torch.addmm(projected[t, k], hidden, weights[k], out=gates[t, k])
                z[:, : 3 * size].sigmoid_()
                z[:, 3 * size :].tanh_()
                i, f, o, g = z.chunk(4, -1)
                cell = torch.addcmul(f * cell, i, g, out=cells[t, k])
                hidden = torch.mul(o, cell.tanh(), out=hiddens[t, k])
    return hiddens, cells, gates


@_forward.register_fake
def _(projected: Tensor, weights: Tensor, first: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    num_rows, num_cells, batch_size, width = projected.shape
    states = projected.new_empty(num_rows, num_cells, batch_size, width // 4)
    return states, torch.empty_like(states), projected.new_empty(projected.shape)


@torch.library.custom_op("laser::lstm_scan_backward", mutates_args=())
def _backward(
    hidden_gradients: Tensor,
    cell_gradients: Tensor,
    gates: Tensor,
    hiddens: Tensor,
    cells: Tensor,
    weights: Tensor,
    first: Tensor,
    hidden: Tensor,
    cell: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    num_rows, num_cells, batch_size, size = cells.shape
    keeps = (~first).to(cells.dtype).unsqueeze(-1)
    with torch.autocast(cells.device.type, enabled=False):
        before_hidden, before_cell = _states_before(hiddens, hidden, keeps), _states_before(cells, cell, keeps)
        i, f, o, g = gates.unflatten(-1, (4, size)).unbind(-2)
        tanh_cells = cells.tanh()
        # dc/dh of each cell, and how z's four parts move c (i, f and g) and h (o): for all rows at once.
        through = o * (1.0 - tanh_cells.square())
        moves = torch.stack(
            [g * i * (1 - i), before_cell * f * (1 - f), tanh_cells * o * (1 - o), i * (1 - g.square())], -2
        )
        projected_gradient = torch.empty_like(moves)
        d_hidden, d_cell = torch.zeros_like(hidden), torch.zeros_like(cell)
        for t in range(num_rows - 1, -1, -1):
            for k in range(num_cells - 1, -1, -1):
                d_hidden = d_hidden + hidden_gradients[t, k]
                d_cell = torch.addcmul(d_cell + cell_gradients[t, k], d_hidden, through[t, k])
                d_z = torch.mul(d_cell.unsqueeze(-2), moves[t, k], out=projected_gradient[t, k])
                torch.mul(d_hidden, moves[t, k, :, 2], out=d_z[:, 2])
                d_hidden, d_cell = d_z.flatten(1) @ weights[k].T, d_cell * f[t, k]
            d_hidden, d_cell = d_hidden * keeps[t], d_cell * keeps[t]
        projected_gradient = projected_gradient.flatten(-2)
        rows = (num_cells, num_rows * batch_size, -1)
        weight_gradient = torch.bmm(
            before_hidden.transpose(0, 1).reshape(rows).mT, projected_gradient.transpose(0, 1).reshape(rows)
        )
    return projected_gradient, weight_gradient, d_hidden, d_cell


@_backward.register_fake
def _(
    hidden_gradients: Tensor,
    cell_gradients: Tensor,
    gates: Tensor,
    hiddens: Tensor,
    cells: Tensor,
    weights: Tensor,
    first: Tensor,
    hidden: Tensor,
    cell: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return gates.new_empty(gates.shape), torch.empty_like(weights), torch.empty_like(hidden), torch.empty_like(cell)


def _states_before(states: Tensor, initial: Tensor, keeps: Tensor) -> Tensor:
    """Return the input state of each cell of each row, after resets."""
    before = torch.empty_like(states)
    before[0, 0] = initial
    before[1:, 0] = states[:-1, -1]
    before[:, 0] *= keeps
    before[:, 1:] = states[:, :-1]
    return before


def _save(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]  # torch's protocol
    _, weights, first, hidden, cell = inputs
    hiddens, cells, gates = output
    ctx.save_for_backward(gates, hiddens, cells, weights, first, hidden, cell)


def _differentiate(ctx, hidden_gradients, cell_gradients, _):  # type: ignore[no-untyped-def]
    gates, hiddens, cells, weights, first, hidden, cell = ctx.saved_tensors
    projected, weight, d_hidden, d_cell = _backward(
        hidden_gradients.contiguous(), cell_gradients.contiguous(), gates, hiddens, cells, weights, first, hidden, cell
    )
    return projected, weight, None, d_hidden, d_cell


_forward.register_autograd(_differentiate, setup_context=_save)
