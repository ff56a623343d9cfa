import io
import struct

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.image import imread
from PIL import Image

from launch.report.pictures import DARK, LIGHT, THEMES, Line, Panel, draw, draw_lineage, thin


def test_any_text_is_drawn_and_panels_lie_side_by_side():
    hostile = "_<b> $\\frac{ \\ $x$"
    lines = [
        Line(hostile, [(0.0, 1.0), (2.0, 3.0)]),
        Line("", [(1.0, 1.0)]),
        Line(hostile, [(0.0, 0.0)], is_steps=True),
    ]
    one, two = (draw([Panel(hostile, hostile, lines, goal=2.0)] * num, hostile) for num in (1, 2))
    assert [size_of(png) for png in (one, two)] == [(600, 360), (1100, 360)]


def size_of(png):
    return struct.unpack(">II", png[16:24])


def luminance(colour):
    """Return the relative luminance of WCAG 2, of a colour as #RRGGBB."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_lines_on_dark_paper_have_the_contrast_that_graphics_need():
    assert all(contrast(line, DARK.paper) >= 3.0 for line in DARK.lines)
    assert all(contrast(theme.ink, theme.paper) >= 7.0 for theme in THEMES)
    assert contrast("#000000", DARK.paper) < 1.2, "the light pictures' black could be seen, and the test says nothing"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    "make",
    [
        lambda theme: draw([Panel("x", "y", [Line("a", [(0.0, 1.0), (2.0, 3.0)])])], "a title", theme=theme),
        lambda theme: draw_lineage({0: 9.0, 1: 9.0}, [(5.0, 0, 1)], [(0.0, 5.0, 0), (5.0, 9.0, 1)], theme),
    ],
)
def test_a_picture_has_the_colours_of_its_theme_and_not_those_of_the_other(make, theme):
    pixels = np.round(np.asarray(imread(io.BytesIO(make(theme))))[:, :, :3] * 255.0).astype(int)

    def share(colour):
        return (pixels == [int(colour[place : place + 2], 16) for place in (1, 3, 5)]).all(-1).mean()

    other = LIGHT if theme is DARK else DARK
    assert share(theme.paper) > 0.7
    assert share(theme.ink) > 0.001
    assert share(other.paper) == share(other.ink) == 0.0
    assert make(LIGHT) != make(DARK)


def test_pictures_are_light_unless_another_theme_is_asked_for_and_leave_matplotlib_as_it_was():
    panels = [Panel("x", "y", [Line("a", [(0.0, 1.0), (2.0, 3.0)])])]
    assert draw(panels) == draw(panels, theme=LIGHT)
    before = dict(rcParams)
    draw(panels, theme=DARK)
    assert dict(rcParams) == before


def test_labels_of_a_picture_have_the_same_colour_in_all_panels_and_one_legend_below():
    import matplotlib.figure

    from launch.report import pictures

    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matplotlib.figure, "Figure", lambda **options: seen.append(Figure(**options)) or seen[-1])
        panels = [
            Panel("x", "y", [Line(label, [(0.0, 0.0), (9.0, 1.0)]) for label in names]) for names in ("ab", "b", "cb")
        ]
        draw(panels, "title", labels=("c", "b", "unused", "a"))
    (figure,) = seen
    colours = [{line.get_label(): line.get_color() for line in axes.get_lines()} for axes in figure.axes]
    assert [each["b"] for each in colours] == [pictures.style(1)[0]] * 3
    assert (colours[0]["a"], colours[2]["c"]) == (pictures.style(3)[0], pictures.style(0)[0])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["c", "b", "a"]
    assert all(axes.get_legend() is None for axes in figure.axes)
    assert legend.get_window_extent().y1 <= min(axes.get_tightbbox().y0 for axes in figure.axes)


@pytest.mark.parametrize("is_log_x", [False, True])
def test_marks_of_long_numbers_are_short(is_log_x):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from launch.report import pictures

    figure = Figure(layout="constrained")
    canvas, axes = FigureCanvasAgg(figure), figure.subplots()
    points = [(20_000.0, 0.0), (1_500_000.0, 1.0)]
    pictures._draw_panel(axes, Panel("env steps", "y", [Line("a", points)], is_log_x=is_log_x), LIGHT)
    canvas.draw()
    marks = [mark.get_text() for mark in (*axes.get_xticklabels(), *axes.get_xticklabels(minor=True))]
    assert {"1M", "500k" if is_log_x else "200k"} <= set(marks)
    assert all(len(mark) <= 5 for mark in marks)


def test_a_note_is_the_comment_of_the_file():
    panels = [Panel("x", "y", [Line("a", [(0.0, 1.0)])])]
    assert Image.open(io.BytesIO(draw(panels, note="drawn from this"))).text["Comment"] == "drawn from this"
    assert "Comment" not in Image.open(io.BytesIO(draw(panels))).text


def test_panels_fill_rows_and_a_place_that_is_left_over_stays_empty():
    panel = Panel("x", "y", [Line("a", [(0.0, 1.0), (1.0, 2.0)])], title="task")
    three = draw([panel] * 3, num_columns=2, shares_y=False)
    assert size_of(three) == (1100, 720)
    pixels = np.asarray(imread(io.BytesIO(three)))[380:, 560:, :3]
    assert (pixels == 1.0).all()


def test_on_a_logarithmic_axis_decades_are_equally_far_apart():
    def heights(is_log):
        points = [(0.0, 1.0), (1.0, 1.0), (1.0, 10.0), (2.0, 10.0), (2.0, 1000.0), (3.0, 1000.0)]
        png = draw([Panel("x", "y", [Line("", points)], is_log=is_log)])
        pixels = np.asarray(imread(io.BytesIO(png)))
        drawn = pixels[:, :, 2] - pixels[:, :, 0] > 0.3  # blue, and no grey
        rows = np.flatnonzero(drawn.sum(1) > 60)  # level parts
        return rows[np.flatnonzero(np.diff(rows, prepend=-9) > 1)]

    low, middle, high = heights(is_log=True)[::-1]
    assert (middle - high) / (low - middle) == pytest.approx(2.0, abs=0.1)
    low, middle, high = heights(is_log=False)[::-1]
    assert (middle - high) / (low - middle) > 50.0
    assert draw([Panel("x", "y", [Line("a", [(0.0, 0.0), (1.0, -1.0)])], is_log=True)])


@pytest.mark.parametrize("is_wide", [False, True])
def test_a_band_is_drawn_around_its_line(is_wide):
    points = [(float(x), 0.0) for x in range(5000)]
    band = [(-1.0, 1.0) if is_wide else (0.0, 0.0)] * len(points)
    frame = [Line("frame", [(0.0, -3.0), (0.0, 3.0)])]
    plain = np.asarray(imread(io.BytesIO(draw([Panel("x", "y", [*frame, Line("a", points)])]))))
    banded = np.asarray(imread(io.BytesIO(draw([Panel("x", "y", [*frame, Line("a", points, band=band)])]))))
    share = (np.abs(plain - banded).max(-1) > 0.02).mean()
    # A third of the height of the axes, which are most of the picture.
    assert 0.15 < share < 0.33 if is_wide else share < 0.01


def test_thinning_keeps_the_ends():
    points = [(float(x), 0.0) for x in range(100_001)]
    kept = thin(points)
    assert len(kept) <= 2002
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert thin(points[:50]) == points[:50]


@pytest.mark.parametrize("name", ["member {}", "a setting with a name as long as a line of text is wide, {}"])
def test_twenty_four_lines_are_told_apart_and_named_below_the_axes(name):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from launch.report import pictures

    names = [name.format(number) for number in range(24)]
    panel = Panel("x", "y", [Line(each, [(0.0, 0.0), (1.0, float(n))]) for n, each in enumerate(names)])
    assert size_of(draw([panel]))[1] > 500
    assert size_of(draw([Panel("x", "y", panel.lines[:6])]))[1] == 360
    figure = Figure(figsize=[side / 100 for side in size_of(draw([panel]))], layout="constrained")
    canvas, axes = FigureCanvasAgg(figure), figure.subplots()
    pictures._draw_panel(axes, panel, pictures.LIGHT)
    canvas.draw()
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == names
    looks = {(line.get_color(), repr(line._unscaled_dash_pattern)) for line in axes.get_lines()}
    assert len(looks) == 24
    whole, place, inside = figure.bbox, legend.get_window_extent(), axes.get_window_extent()
    assert whole.x0 <= place.x0 < place.x1 <= whole.x1
    assert whole.y0 <= place.y0 < place.y1 <= inside.y0, "below the axes, and not cut"
    assert inside.height > 0.6 * 360
    assert len({pictures.style(number) for number in range(pictures.NUM_STYLES)}) == pictures.NUM_STYLES == 64


@pytest.mark.parametrize("number", [64, 65])
def test_of_more_members_than_can_be_told_apart_the_seeds_of_a_setting_are_alike(number):
    from types import SimpleNamespace

    from launch.report.sweep_report import _curves, _Member

    recorded = SimpleNamespace(returns=[(0.0, 1.0)])
    members = [_Member(n, {"rate": str(n % 4), "seed": str(n // 4)}, recorded, 1.0, None, "") for n in range(number)]
    labels = [line.label for line in _curves([*members, _Member(99, {}, recorded, 1.0, None, "damaged")])]
    if number == 64:
        assert labels == [f"member {n}" for n in range(64)]
    else:
        assert labels == [f"rate={n % 4}" for n in range(65)]
