"""What each Python thread says of how torch computes for it, kept whatever others say."""

import threading

import torch

from laser.torch_threads import flush_denormals, set_torch_threads, torch_threads


def test_every_thread_keeps_its_own_number_whatever_others_say_later():
    others_said, seen = threading.Event(), []

    def learner():
        set_torch_threads(2)
        assert others_said.wait(10.0)
        torch.ones(300, 300) @ torch.ones(300, 300)
        seen.append(torch.get_num_threads())

    thread = threading.Thread(target=learner)
    thread.start()
    for _ in range(2):
        other = threading.Thread(target=set_torch_threads, args=(1,))
        other.start()
        other.join()
    others_said.set()
    thread.join()
    assert seen == [2]


def test_a_thread_that_is_not_ours_alone_gets_its_number_back():
    before = torch.get_num_threads()
    with torch_threads(3):
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == before


def test_a_thread_and_all_its_helpers_take_denormals_for_zero_and_others_do_not():
    left = {}

    def halve(name, *said):
        for say in said:
            say()
        set_torch_threads(2)
        left[name] = int((torch.full((1_000_000,), 1.5e-38) * 0.5).count_nonzero())

    for name, said in (("flushes", [flush_denormals]), ("does not", [])):
        thread = threading.Thread(target=halve, args=(name, *said))
        thread.start()
        thread.join()
    assert left == {"flushes": 0, "does not": 1_000_000}
