"""Compiled code against the function it was made of."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from laser.compiled_program import CompilationError, CompiledProgram


@dataclasses.dataclass(frozen=True)
class Said:
    number: torch.Tensor
    by_name: dict
    nothing: None = None


@pytest.mark.slow
def test_trees_go_in_and_come_out_and_held_tensors_change_in_place():
    vector = torch.arange(6.0)
    held = {"halves": [vector[:3], vector[3:]]}  # neighbours in one memory

    def function(held, said, factor):
        one, other = held["halves"]
        one.add_(other * factor)
        return Said(said.number + one.sum(), {"twice": said.by_name["x"] * 2, "factor": factor})

    program = CompiledProgram(function, held)
    said = program(Said(torch.tensor(1.0), {"x": torch.ones(2, 3)}), 2.0)
    assert vector.tolist() == [6.0, 9.0, 12.0, 3.0, 4.0, 5.0]
    assert isinstance(said, Said)
    assert (said.number, said.nothing, said.by_name["factor"]) == (28.0, None, 2.0)
    assert said.by_name["twice"].tolist() == [[2.0] * 3] * 2
    # Other constants, shapes and strides are other programs, and those before stay.
    double = torch.ones(2, 3, dtype=torch.float64)
    for x in (torch.ones(4), torch.ones(2, 3), torch.arange(6.0).view(3, 2).T, double):
        got = program(Said(torch.tensor(1.0), {"x": x}), 0.0).by_name["twice"]
        assert got.dtype == x.dtype
        assert got.tolist() == (2 * x).tolist()
    assert len(program._compiled) == 5
    program(Said(torch.tensor(5.0), {"x": torch.ones(2, 3)}), 2.0)
    assert len(program._compiled) == 5
    assert vector[0] == 12.0
    # Gaps and repetitions are closed, whatever strides the code was made for.
    wide = torch.arange(12.0).view(2, 6)
    for x in (wide[:, :3], wide[:, 3:], torch.ones(2, 1).expand(2, 3)):
        assert program(Said(torch.tensor(1.0), {"x": x}), 2.0).by_name["twice"].tolist() == (2 * x).tolist()
    assert len(program._compiled) == 5


@pytest.mark.slow
def test_compiling_alone_changes_nothing():
    vector = torch.zeros(3)

    def function(held, more):
        held[0].add_(more)
        return held[0].sum()

    program = CompiledProgram(function, [vector])
    program.compile(torch.ones(3))
    assert vector.tolist() == [0.0] * 3
    assert program(torch.ones(3)) == 3.0


@pytest.mark.slow
def test_random_numbers_are_those_of_uncompiled_code_with_the_same_generator_and_nobody_elses():
    def function(held, x, generator=None):
        normal = torch.randn((2, 3), generator=generator)
        drawn = torch.empty(5).exponential_(2.0, generator=generator).clamp_(min=0.1)
        return normal, drawn, torch.rand(4, generator=generator) + x, torch.randn(1, generator=generator)

    mine = CompiledProgram(function, (), torch.Generator().manual_seed(7))
    torch.manual_seed(99)  # somebody else's
    got = [mine(torch.ones(4)), mine(torch.ones(4))]
    after = torch.randn(1)
    generator = torch.Generator().manual_seed(7)
    expected = [function((), torch.ones(4), generator), function((), torch.ones(4), generator)]
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    torch.manual_seed(99)
    assert after == torch.randn(1)


@pytest.mark.slow
def test_calls_in_a_row_are_as_one_after_the_other():
    def function(held, x, times):
        held[0].add_(x + torch.randn(3))
        return held[0] * times

    vectors = torch.zeros(2, 3)
    one, other = (CompiledProgram(function, [vector], torch.Generator().manual_seed(7)) for vector in vectors)
    calls = [(torch.ones(3), 1), (torch.ones(3), 2), (torch.ones(3), 1)]  # the second is another program
    torch.testing.assert_close(one.in_a_row(calls), [other(*call) for call in calls], rtol=0, atol=0)
    assert vectors[0].tolist() == vectors[1].tolist() != [0.0] * 3
    assert one.in_a_row([]) == []


@pytest.mark.slow
def test_numbers_that_are_like_a_tensor_are_drawn_and_a_program_without_a_generator_draws_from_the_global_one():
    program = CompiledProgram(lambda held: torch.randn_like(held[0]) + torch.rand_like(held[0]), [torch.zeros(2, 3)])
    torch.manual_seed(5)
    got = program()
    torch.manual_seed(5)
    torch.testing.assert_close(got, torch.randn(2, 3) + torch.rand(2, 3), rtol=0, atol=0)


def test_draws_that_hang_on_the_numbers_of_a_tensor_are_refused_by_name():
    program = CompiledProgram(lambda held, x: x.multinomial(1))
    with pytest.raises(CompilationError, match=r"draws with aten.multinomial"):
        program(torch.ones(3))


def test_a_branch_that_hangs_on_a_number_is_refused_in_one_line():
    program = CompiledProgram(lambda held, x: x if x.sum() > 0 else -x)
    with pytest.raises(CompilationError, match=r"^[^\n]{10,260}$"):
        program(torch.ones(2))


@pytest.mark.slow
def test_threads_compile_at_the_same_time():
    def compile_one(number):
        def function(held, x):
            for step in range(40):
                x = x * 1.01 + step + number
            return x

        program = CompiledProgram(function)
        program.compile(torch.ones(3 + number))
        return program(torch.zeros(3 + number)).shape[0]

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(compile_one, range(6))) == [3, 4, 5, 6, 7, 8]
