"""Counts of compiled programs against closed forms; bounds on the committed table, and on programs compiled here.

The last need the compilers for accelerators: `make accelerators` fetches them, and `FEDJAX_PRIV_ACCELERATORS` names
their folder.
"""

import os
import pathlib

import jax
import jax.numpy as jnp
import pytest

from experiments.accelerators import environment, table
from experiments.accelerators.bounds import ASKED, BOUNDS
from experiments.accelerators.cost import Cost, cost
from experiments.accelerators.order import scatters_in_any_order
from experiments.accelerators.programs import CASES
from experiments.accelerators.targets import TARGETS, floor

TEXT = """HloModule made_up

%fused (p.0: f32[10,64], p.1: s32[]) -> f32[1,64] {
  %p.0 = f32[10,64]{1,0} parameter(0)
  %p.1 = s32[] parameter(1)
  ROOT %cut = f32[1,64]{1,0} dynamic-slice(%p.0, %p.1, %p.1), dynamic_slice_sizes={1,64}
}

%update (q.0: f32[10,64], q.1: f32[1,64], q.2: s32[]) -> f32[10,64] {
  %q.0 = f32[10,64]{1,0} parameter(0)
  %q.1 = f32[1,64]{1,0} parameter(1)
  %twice = f32[1,64]{1,0} add(%q.1, %q.1)
  %q.2 = s32[] parameter(2)
  ROOT %put = f32[10,64]{1,0} dynamic-update-slice(%q.0, %twice, %q.2, %q.2)
}

%body (carry: (s32[], f32[10,64])) -> (s32[], f32[10,64]) {
  %carry = (s32[], f32[10,64]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%carry), index=0
  %rows = f32[10,64]{1,0} get-tuple-element(%carry), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %row = f32[1,64]{1,0:T(8,128)} fusion(%rows, %i), kind=kLoop, calls=%fused
  %new = f32[10,64]{1,0} fusion(%rows, %row, %i), kind=kLoop, calls=%update
  ROOT %out = (s32[], /*index=1*/f32[10,64]{1,0}) tuple(%next, %new)
}

%test (carry.1: (s32[], f32[10,64])) -> pred[] {
  %carry.1 = (s32[], f32[10,64]{1,0}) parameter(0)
  %j = s32[] get-tuple-element(%carry.1), index=0
  %end = s32[] constant(7)
  ROOT %less = pred[] compare(%j, %end), direction=LT
}

%left (l: f32[10,64]) -> f32[10,64] {
  %l = f32[10,64]{1,0} parameter(0)
  ROOT %minus = f32[10,64]{1,0} negate(%l)
}

%right (r: f32[10,64]) -> f32[10,64] {
  ROOT %r = f32[10,64]{1,0} parameter(0)
}

ENTRY %main (x: f32[10,64], y: f32[64,5], which: s32[]) -> f32[10,5] {
  %x = f32[10,64]{1,0} parameter(0)
  %y = f32[64,5]{1,0} parameter(1)
  %which = s32[] parameter(2)
  %zero = s32[] constant(0)
  %start = (s32[], f32[10,64]{1,0}) tuple(%zero, %x)
  %loop = (s32[], f32[10,64]{1,0}) while(%start), condition=%test, body=%body
  %after = f32[10,64]{1,0} get-tuple-element(%loop), index=1
  %chosen = f32[10,64]{1,0} conditional(%which, %after, %after), branch_computations={%left, %right}
  ROOT %product = f32[10,5]{1,0} dot(%chosen, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
ROW, ROWS = 4 * 64, 4 * 640


def test_a_program_of_every_kind_is_counted():
    found = cost(TEXT)
    of_a_turn = 12 + 2 * ROW + (2 * ROW + ROW + 4) + 4  # the counter; a row cut; a row put in place
    assert found.kernels == 7 * 3 + 1 + 1
    assert found.loops == 0
    assert found.flops == 2 * 10 * 64 * 5
    assert found.operations == 7 * (1 + 64) + 640
    assert found.bytes == 7 * of_a_turn + 2 * ROWS + (ROWS + 4 * 320 + 4 * 50)


OF_A_SUM = """HloModule of_a_sum

%fused (p: f32[3,8,64]) -> f32[2,64] {
  %p = f32[3,8,64]{2,1,0} parameter(0)
  %nothing = f32[] constant(0)
  %minus = f32[3,8,64]{2,1,0} negate(%p)
  %sum = f32[8,64]{1,0} reduce(%minus, %nothing), dimensions={0}, to_apply=%add
  ROOT %cut = f32[2,64]{1,0} slice(%sum), slice={[2:4], [0:64]}
}

ENTRY %main (x: f32[3,8,64]) -> f32[2,64] {
  %x = f32[3,8,64]{2,1,0} parameter(0)
  ROOT %part = f32[2,64]{1,0} fusion(%x), kind=kLoop, calls=%fused
}
"""


def test_of_a_sum_of_which_a_part_is_kept_a_part_is_read_and_computed():
    kept, read = 2 * 64, 3 * 2 * 64
    assert cost(OF_A_SUM) == Cost(kernels=1, bytes=4 * (kept + read), operations=2 * read)
    in_order = "%sorted = f32[8,64]{1,0} sort(%sum), dimensions={0}\n  ROOT %cut = f32[2,64]{1,0} slice(%sorted)"
    whole = OF_A_SUM.replace("ROOT %cut = f32[2,64]{1,0} slice(%sum)", in_order)
    assert cost(whole).bytes == 4 * (kept + 3 * 8 * 64), "what is not followed needs all"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("constant(1)", "constant(2)"),  # an end that is not met exactly
        ("%next = s32[] add(%i, %one)", "%next = s32[] multiply(%i, %one)"),
        ("direction=LT", "direction=GT"),
        ("ROOT %less = pred[] compare", "%less = pred[] compare"),  # the test is something else
    ],
)
def test_a_loop_is_known_only_if_a_counter_ends_it(old, new):
    assert TEXT.count(old) >= 1
    changed = TEXT.replace(old, new)
    if "ROOT" in old:
        changed = changed.replace("direction=LT\n}", "direction=LT\n  ROOT %both = pred[] and(%less, %less)\n}")
    found = cost(changed)
    assert found.loops == 1 and found.kernels == 3 + 1 + 1


def test_a_kernel_that_others_need_not_wait_for_costs_as_much():
    """As newer compilers write it: the start names what it reads, what it makes, and a number of bytes."""
    kernel = "%row = f32[1,64]{1,0:T(8,128)} fusion(%rows, %i), kind=kLoop, calls=%fused"
    assert TEXT.count(kernel) == 1
    start = (
        "%begun = ((f32[10,64]{1,0}, s32[]), f32[1,64]{1,0}, u32[]) fusion-start(%rows, %i), kind=kLoop, calls=%fused"
    )
    done = "%row = f32[1,64]{1,0:T(8,128)} fusion-done(%begun)"
    assert cost(TEXT.replace(kernel, f"{start}\n  {done}")) == cost(TEXT)
    in_place = "%new = f32[10,64]{1,0} fusion(%rows, %row, %i), kind=kLoop, calls=%update"
    start = start.replace("%begun", "%put").replace("%rows, %i", "%rows, %row, %i").replace("%fused", "%update")
    assert cost(TEXT.replace(in_place, f"{start}\n  %new = f32[10,64]{{1,0}} fusion-done(%put)")) == cost(TEXT)


def test_a_loop_turns_from_where_it_starts():
    assert cost(TEXT.replace("constant(0)", "constant(2)")).kernels == 5 * 3 + 2


def test_a_loop_of_unknown_length_in_a_loop_is_one():
    assert Cost(1, 1, 10, 100, 1000).plus(Cost(2, 1, 20, 200, 2000), 7) == Cost(15, 2, 150, 1500, 15000)


def test_what_the_compiler_says_of_a_loop_counts():
    told = TEXT.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"9"}}')
    assert cost(told).kernels == 9 * 3 + 2


def convolution(x, kernel, stride, padding):
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=layout)


@pytest.mark.parametrize(
    ("function", "shapes", "flops"),
    [
        (lambda a, b: a @ b, [(7, 5), (5, 3)], 2 * 7 * 5 * 3),
        (jax.vmap(lambda a, b: a @ b), [(4, 7, 5), (4, 5, 3)], 4 * 2 * 7 * 5 * 3),
        (lambda a, b: jax.lax.scan(lambda c, _: (c @ b, None), a, length=6)[0], [(7, 5), (5, 5)], 6 * 2 * 7 * 5 * 5),
        (lambda x, k: convolution(x, k, 2, "VALID"), [(2, 9, 9, 3), (3, 3, 3, 4)], 2 * (2 * 4 * 4 * 4) * (3 * 3 * 3)),
        (lambda x, k: convolution(x, k, 1, "SAME"), [(1, 4, 4, 1), (3, 3, 1, 1)], 2 * (2 + 3 + 3 + 2) ** 2),
    ],  # a tap in the padding is no product
    ids=["matmul", "batched", "loop", "convolution", "padding"],
)  # fmt: skip
def test_flops_of_programs_compiled_here_are_those_of_the_formula(function, shapes, flops):
    text = jax.jit(function).lower(*(jnp.ones(shape) for shape in shapes)).compile().as_text()
    found = cost(text)
    assert (found.flops, found.loops) == (flops, 0)


TPU = """ENTRY %e (a: f32[25,20,30], b: f32[25,30,10]) -> f32[25,20,10] {
  %a = f32[25,20,30]{2,1,0:T(8,128)} parameter(0)
  %b = f32[25,30,10]{2,1,0:T(8,128)} parameter(1)
  ROOT %c = f32[25,20,10]{2,1,0} convolution(%a, %b), window={size=25 stride=24 lhs_dilate=25}, dim_labels=0bf_0io->0bf
}
"""


def test_a_batched_product_as_tpus_write_it():
    """A convolution over the batch with holes, of which one tap in 25 meets a number."""
    assert cost(TPU).flops == 25 * 2 * 20 * 30 * 10


OF_BYTES = """ENTRY %e (a: s8[20,30], b: s8[30,10]) -> s32[20,10] {
  %a = s8[20,30]{1,0} parameter(0)
  %b = s8[30,10]{1,0} parameter(1)
  ROOT %c = s32[20,10]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def test_products_of_bytes_are_counted_apart_too():
    assert cost(OF_BYTES) == Cost(1, bytes=600 + 300 + 800, flops=2 * 20 * 30 * 10, byte_flops=2 * 20 * 30 * 10)
    assert cost(OF_BYTES.replace("b: s8", "b: s32").replace("%b = s8", "%b = s32")).byte_flops == 0
    library = 'custom-call(%a, %b), custom_call_target="__cublas$lt$matmul", of={"lhs_contracting_dimensions":["1"]}'
    by_a_library = OF_BYTES.replace("dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", library)
    assert cost(by_a_library) == cost(OF_BYTES)


@pytest.mark.parametrize(("way", "shape"), [("InputBackward", "5,8,9,7"), ("FilterBackward", "3,2,7,4")])
def test_convolutions_of_a_library_are_counted_whichever_way_they_go(way, shape):
    """The same products forward and in both gradients: of 5 images, 8x9, 7 to 4 channels, 3x2 without padding."""
    arrays = {"image": "f32[5,8,9,7]{3,2,1,0}", "weight": "f32[3,2,7,4]{3,2,1,0}", "out": "f32[5,6,8,4]{3,2,1,0}"}
    operands, result = {
        "InputBackward": (("out", "weight"), "image"), "FilterBackward": (("image", "out"), "weight"),
    }[way]  # fmt: skip
    target = {"InputBackward": "BackwardInput", "FilterBackward": "BackwardFilter"}[way]
    lines = [f"  %{name} = {arrays[name]} parameter({i})" for i, name in enumerate(operands)]
    call = f"custom-call(%{operands[0]}, %{operands[1]}), window={{size=3x2}}, dim_labels=b01f_01io->b01f"
    lines.append(f'  ROOT %r = ({arrays[result]}, u8[0]{{0}}) {call}, custom_call_target="__cudnn$conv{target}"')
    text = "ENTRY %e (a: f32[2]) -> f32[2] {\n" + "\n".join(lines) + "\n}\n"
    assert f"[{shape}]" in lines[-1]
    assert cost(text).flops == 2 * (5 * 6 * 8 * 4) * (3 * 2 * 7)


@pytest.mark.parametrize(
    ("shape", "rest", "number"),
    [
        ("f32[8]{0}", "", 1),
        ("bf16[8]{0}", "", 1),
        ("c64[8]{0}", "", 1),
        ("(f32[8]{0}, s32[8]{0})", "", 1),
        ("f32[8]{0}", ", unique_indices=false", 1),
        ("f32[8]{0}", ", unique_indices=true", 0),
        ("u32[8]{0}", "", 0),
        ("pred[8]{0}", "", 0),
    ],
)
def test_a_scatter_of_floats_is_in_any_order_unless_its_places_differ(shape, rest, number):
    scatter = f"  ROOT %s = {shape} scatter(%a, %i, %u), scatter_dims_to_operand_dims={{0}}{rest}, to_apply=%sum"
    assert scatters_in_any_order(f"ENTRY %e (a: f32[8]) -> f32[8] {{\n{scatter}\n}}\n") == number


def test_a_floor_is_the_largest_of_its_quotients():
    h200, tpu = TARGETS["h200"], TARGETS["tpu"]
    assert floor(h200, 4.8e12, 0, 0) == (1.0, "memory") and floor(h200, 0, 990e12, 0) == (2.0, "products")
    assert floor(h200, 0, 0, 3 * 132 * 64 * 1.98e9) == (3.0, "operations")
    assert floor(tpu, 819e9, 0, 1e30) == (1.0, "memory"), "its rate of other operations is not published"
    assert floor(h200, 0, 495e12 + 2 * 1979e12, 0, 2 * 1979e12) == (3.0, "products")


def test_rows_of_the_table_keep_their_bounds():
    rows = table.read()
    assert rows.keys() == BOUNDS.keys() and ASKED.keys() <= rows.keys() <= set(CASES)
    for case, row in rows.items():
        check(case, row)
        assert BOUNDS[case].kernels <= 1.25 * row["kernels"], f"the bound of {case} says nothing"
        assert BOUNDS[case].moved_bytes <= 1.25 * row["bytes"], f"the bound of {case} on bytes says nothing"
        assert row["temporary_bytes"] + row["argument_bytes"] < TARGETS[case.split("-")[1]].memory
        assert row["effort"] == "default" or case.endswith("0000")
    assert (table.RESULTS / "README.md").read_text() == table.page(rows)


def test_what_is_asked_and_missed_is_in_bold():
    row = dict(kernels=201, loops=0, bytes=0, flops=0, operations=0, temporary_bytes=0)
    assert "**201** | 200 " in table.page({"fedavg-h200-1000": row})
    assert "| 200 | 200 " in table.page({"fedavg-h200-1000": row | {"kernels": 200}})
    assert "| **3** | 0 |" in table.page({"fedavg-h200-1000": row | {"loops": 3}})


def test_without_an_index_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "requirements", lambda: ["no-such-package==0"])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(environment.NotMade, match="^no compilers for accelerators: pip could not install no-such-pack"):
        environment.made(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_the_compilers_are_those_of_this_jax():
    plugin, pjrt, tpu = environment.requirements()
    assert plugin.endswith(f"=={jax.__version__}") and pjrt.endswith(f"=={jax.__version__}")
    assert tpu.startswith("libtpu==")


def check(case, row):
    bound = BOUNDS[case]
    assert row["kernels"] <= bound.kernels, f"{case}: {row['kernels']:,} kernels, at most {bound.kernels:,}"
    assert row["loops"] <= bound.loops, f"{case}: {row['loops']} loops of unknown length, at most {bound.loops}"
    assert row["temporary_bytes"] <= bound.temporary_bytes, f"{case}: {row['temporary_bytes']:,} bytes of temporaries"
    assert row["bytes"] <= bound.moved_bytes, f"{case}: {row['bytes']:,} bytes moved, at most {bound.moved_bytes:,.0f}"


needs_compilers = pytest.mark.skipif(
    "FEDJAX_PRIV_ACCELERATORS" not in os.environ, reason="needs the compilers that `make accelerators` fetches"
)


def compiled_here(case, *options):
    home = pathlib.Path(os.environ["FEDJAX_PRIV_ACCELERATORS"])
    return table.measured(case, home, "--fast", *options)


COMPILED_IN_CI = ["fedavg-h200-1000", "fedavg-tpu_2x2-100", "sparse_secagg-h200-100"]


def test_what_is_compiled_in_ci_has_a_bound():
    assert BOUNDS.keys() >= {*COMPILED_IN_CI}


@needs_compilers
@pytest.mark.parametrize("case", COMPILED_IN_CI)
def test_programs_compiled_now_keep_their_bounds(case):
    check(case, compiled_here(case))


def cost_of_a_word(*options):
    return table.printed("masks", pathlib.Path(os.environ["FEDJAX_PRIV_ACCELERATORS"]), *options)


@needs_compilers
@pytest.mark.parametrize(
    ("options", "most_bytes", "most_operations"),
    [
        (("h200", "100"), 4.1, 50),
        (("h200", "100", "--bits", "20"), 3.2, 40),
        (("tpu", "600"), 11.1, 117),
        (("tpu", "600", "--bits", "20"), 0.6, 103),
    ],
)
def test_words_of_masks_are_computed_once_and_not_written(options, most_bytes, most_operations):
    """Writing and reading a word moves 8 bytes; on a TPU those that stand in for words outside the field are."""
    found = cost_of_a_word(*options)
    assert found["bytes"] <= most_bytes and found["operations"] <= most_operations


@needs_compilers
def test_words_of_few_pairs_are_written_on_a_tpu():
    """The control."""
    found = cost_of_a_word("tpu", "40")
    assert found["bytes"] > 20 and found["operations"] > 250


@needs_compilers
@pytest.mark.parametrize(("options", "in_any_order"), [((), 1), (("--deterministic",), 0)])
def test_with_xlas_setting_no_floats_are_added_in_any_order(options, in_any_order):
    """Without it the gradient of the loss is: each label chooses a logit, and XLA does not see that no two are one."""
    found = compiled_here("fedavg-h200-100", *options)
    assert found["scatters_in_any_order"] == in_any_order
    check("fedavg-h200-100", found)


@needs_compilers
def test_blocks_of_eight_break_the_bound():
    with pytest.raises(AssertionError, match="^fedavg-h200-1000: .* kernels, at most"):
        check("fedavg-h200-1000", compiled_here("fedavg-h200-1000", "--block", "8"))
