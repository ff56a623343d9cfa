"""torch's compiler as LASER uses it: who loads it, what its checks load, and our pass over its graphs."""

import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from laser import torch_compiler


def test_a_program_that_compiles_nothing_does_not_load_the_compiler():
    parts = ("torch", "torch._dynamo", "torch._inductor")
    code = f"import sys, launch.train; print(*(part in sys.modules for part in {parts}))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "True False False\n"


def test_the_check_of_vector_instructions_loads_no_more_of_torch_than_it_needs(tmp_path):
    # torch 2.11's program; that of 2.13 is left as it is.
    old = '\nimport torch\nfrom ctypes import cdll\ncdll.LoadLibrary("__lib_path__")\n'
    check = type("Check", (), {"_avx_py_load": old})
    torch_compiler.quicken_checks(check)
    library = Path(torch.__file__).parent / "lib" / "libtorch_python.so"  # needs libtorch_cpu, as the check's does
    program = check._avx_py_load.replace("__lib_path__", str(library))
    said = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint('torch' in sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "False\n"
    new = type("Check", (), {"_avx_py_load": old.replace("import torch\n", "")})
    torch_compiler.quicken_checks(new)
    assert "libtorch" not in new._avx_py_load


def test_a_library_that_could_be_loaded_is_not_tried_again(tmp_path):
    tried = []

    def process():
        """Return the check of another process."""

        def loads(self, library):
            tried.append(Path(library).name)
            return "good" in library

        check = type("Check", (), {"_avx_py_load": "", "_probe_load": loads})
        torch_compiler.quicken_checks(check)
        return check()

    for _ in range(2):
        assert process()._probe_load(str(tmp_path / "good.so"))
        assert not process()._probe_load(str(tmp_path / "bad.so"))
    assert tried == ["good.so", "bad.so", "bad.so"]
    assert process()._probe_load(str(tmp_path / "missing" / "good.so")), "where no mark can be left"


def test_biases_are_added_apart_from_products_but_where_one_is_scaled():
    def layers(x, weight, bias):
        return F.linear(x, weight, bias).relu(), torch.addmm(bias, x, weight.T, beta=0.5)

    arguments = torch.randn(3, 4), torch.randn(2, 4), torch.randn(2)
    traced = make_fx(layers)(*arguments)
    aten = torch.ops.aten
    assert sum(node.target is aten.addmm.default for node in traced.graph.nodes) == 2
    torch_compiler._BiasApart()(traced.graph)
    traced.recompile()
    kinds = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert [kinds.count(kind) for kind in (aten.addmm.default, aten.mm.default, aten.add.Tensor)] == [1, 1, 1]
    torch.testing.assert_close(traced(*arguments), layers(*arguments))
