from matplotlib.colors import to_rgb

from fedjax_priv.analysis.line_styles import COLOURS, line


def test_six_lines_have_six_colours_that_white_paper_shows():
    assert [line(number)["color"] for number in range(7)] == [*COLOURS, COLOURS[0]]
    assert len({*map(to_rgb, COLOURS)}) == 6 and max(min(to_rgb(one)) for one in COLOURS) < 0.5
