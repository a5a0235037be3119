"""Pictures as journals take them: vectors next to PNG, typeset symbols, tables as text."""

import pytest
from matplotlib.figure import Figure

from experiments.pictures import typeset, write, write_table


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("eps", r"$\varepsilon$"),
        ("exact eps at delta_c", r"exact $\varepsilon$ at $\delta_{\mathrm{c}}$"),
        ("(a) L = 0.1, sigma^2 = 0.8, T = 2,500", r"(a) $L$ = 0.1, $\sigma^{2}$ = 0.8, $T$ = 2,500"),
        ("eps_T, p_k, h_th, with N0", r"$\varepsilon_{T}$, $p_{k}$, $h_{\mathrm{th}}$, with $N_{0}$"),
        ("G_t^2, eq. 21; delta' = 2", r"$G_{t}^{2}$, eq. 21; $\delta'$ = 2"),
        ("K^(-0.5)", "$K^{-0.5}$"),
        ("alpha-beta", r"$\alpha$-$\beta$"),
        ("softmax, d = 650", "softmax, $d$ = 650"),
    ],
)
def test_symbols_are_typeset(text, typed):
    assert typeset(text) == typed
    assert typeset(typed) == typed  # once


@pytest.mark.parametrize(
    "text", ["", "steps", "epsilon", "FedSGD", "deltas", "T rounds of K users", "a 1/K", "cost $5", "mnist_d", "x^"]
)
def test_words_stay_words(text):
    assert typeset(text) == text


def drawn():
    picture = Figure(figsize=(3, 2), layout="constrained")
    axes = picture.subplots()
    axes.plot([0, 1], [1, 2], label="eps_c, eq. 13")
    axes.set(title="sigma^2 = 0.1", xlabel="h_th")
    axes.set_xticks([0, 1], ["p_t", "all"])
    axes.legend()
    return picture


def test_a_picture_is_written_as_png_and_as_vectors_only_if_asked(tmp_path):
    write(drawn(), tmp_path / "fig1.5")
    assert [file.name for file in tmp_path.iterdir()] == ["fig1.5.png"]
    write(drawn(), tmp_path / "fig1.5", vectors=True)
    assert {file.suffix for file in tmp_path.iterdir()} == {".png", ".pdf", ".svg"}
    assert (tmp_path / "fig1.5.png").read_bytes()[1:4] == b"PNG"
    pdf, svg = (tmp_path / "fig1.5.pdf").read_bytes(), (tmp_path / "fig1.5.svg").read_text()
    assert pdf.startswith(b"%PDF") and b"/Type0" in pdf and b"/Subtype /Type3" not in pdf  # fonts, not drawings of them
    assert "<text" in svg and "eq. 13" in svg and "<image" not in svg
    for plain in ("sigma^2", "h_th", "eps_c", "p_t"):
        assert plain not in svg


def test_the_same_figure_gives_the_same_files(tmp_path):
    for name in ("a", "b"):
        write(drawn(), tmp_path / name, vectors=True)
    for form in ("png", "pdf", "svg"):
        assert (tmp_path / f"a.{form}").read_bytes() == (tmp_path / f"b.{form}").read_bytes()


def test_a_table_is_text(tmp_path):
    write_table([["", "p = 0.3"], ["eps_l", "5.124"], ["accuracy", "84"]], tmp_path / "fig4.md")
    assert (tmp_path / "fig4.md").read_text() == (
        "|          | p = 0.3 |\n| -------- | ------- |\n| eps_l    | 5.124   |\n| accuracy | 84      |\n"
    )
