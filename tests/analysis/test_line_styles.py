from matplotlib.colors import to_rgb

from fedjax_priv.analysis.line_styles import COLOURS, line


def test_six_lines_have_six_colours_that_white_paper_shows():
    assert [line(number)["color"] for number in range(7)] == [*COLOURS, COLOURS[0]]
    assert len({*map(to_rgb, COLOURS)}) == 6 and max(min(to_rgb(one)) for one in COLOURS) < 0.5


def test_72_lines_differ_and_all_have_marks():
    """Marks begin at a fraction of the picture: at 0.9 a line across it has one, at 2 it has none."""
    looks = [(style["color"], style["linestyle"], style["marker"]) for style in map(line, range(72))]
    assert len({*looks}) == 72
    assert max(line(number)["markevery"][0] for number in range(72)) < 0.5
