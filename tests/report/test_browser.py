"""The page in a real headless Chromium: no errors, figures to be seen, tables that sort, no request.

With METRICOPT_SCREENSHOTS=docs/images and METRICOPT_DEMO=demo (the folder of a demo run) the pictures of the
documentation are taken anew.
"""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from metricopt.report import read_run, run_of, write_report
from metricopt.run.events import NAME

_SPEC = importlib.util.spec_from_file_location("chromium", Path(__file__).with_name("chromium.py"))
browser = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(browser)

pytestmark = pytest.mark.skipif(browser.BINARY is None, reason="no Chromium was found on this machine")

SHOWN = (
    "[...document.querySelectorAll('figure svg[role=img]')].filter(each => each.getBoundingClientRect().height > 50)"
)


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def html(folder, tmp_path_factory):
    return write_report(read_run(folder), tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def paper_html(paper_folder, tmp_path_factory):
    return write_report(read_run(paper_folder), tmp_path_factory.mktemp("page") / "paper.html")


def test_it_renders_without_a_word_on_the_console(html, paper_html, profile):
    for each in (html, paper_html):
        _, console = browser.chromium(each, "--dump-dom", profile=profile)
        assert console == []


def test_the_console_would_have_been_heard(html, profile):
    _, console = browser.probed(html, "nothing.such", profile=profile)
    assert any("Uncaught ReferenceError" in line for line in console)


def test_every_figure_is_drawn_once_at_a_readable_size(html, profile):
    shown, _ = browser.probed(
        html, f"{SHOWN}.length + '/' + document.querySelectorAll('figure').length", profile=profile
    )
    assert shown == "6/6"


def test_letters_in_figures_are_large_enough_to_read(html, profile):
    size = "t => t.getBBox().height * t.ownerSVGElement.getScreenCTM().a"
    smallest = f"Math.min(...{SHOWN}.flatMap(each => [...each.querySelectorAll('text')]).map({size}))"
    height, _ = browser.probed(html, smallest, profile=profile)
    assert float(height) >= 12


@pytest.mark.parametrize("width", [320, 390, 1100])
def test_the_page_never_scrolls_sideways(html, profile, width):
    frame = html.with_name(f"frame-{width}.html")
    inside = f"<iframe style='width:{width}px;height:900px;border:0' src='{html.name}'></iframe>"
    frame.write_text(f"<!doctype html><html><head><title></title></head><body>{inside}</body></html>")
    script = "document.querySelector('iframe').contentDocument.documentElement.scrollWidth"
    copy = frame.with_name(f"wrapped-{width}.html")
    later = f"<script>onload = () => document.title = {script}</script>"
    copy.write_text(frame.read_text().replace("</body>", f"{later}</body>"))
    dom, _ = browser.chromium(copy, "--dump-dom", "--allow-file-access-from-files", profile=profile)
    assert int(dom.split("<title>")[1].split("</title>")[0]) <= width


HIDDEN_COLUMNS = """[...document.querySelectorAll('.scroll')]
  .filter(each => each.scrollWidth > each.clientWidth).map(each => each.firstChild.id).join()"""
# Names of axes and ticks that lie on each other, of the drawings that are shown.
OVERLAPS = """[...document.querySelectorAll('svg[role=img]')].flatMap(svg => {
  const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0);
  return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) =>
    p.left + 1 < q.right && q.left + 1 < p.right && p.top + 2 < q.bottom && q.top + 2 < p.bottom)
    .map(([b]) => a + ' | ' + b));
}).join('; ')"""


def on_a_screen(html, script, *, width, profile):
    """What a script finds in a page that is shown so many pixels wide."""
    frame = html.with_name(f"screen-{html.stem}-{width}.html")
    inside = f"<iframe style='width:{width}px;height:900px;border:0' src='{html.name}'></iframe>"
    late = f"onload = () => document.title = document.querySelector('iframe').contentWindow.eval({script!r})"
    frame.write_text(f"<!doctype html><html><head><title></title></head><body>{inside}<script>{late}</script></body>")
    dom, _ = browser.chromium(frame, "--dump-dom", "--allow-file-access-from-files", profile=profile)
    return dom.split("<title>")[1].split("</title>")[0]


@pytest.mark.parametrize("width", [390, 1100])
def test_no_label_lies_on_another(html, paper_html, profile, width):
    for each in (html, paper_html):
        assert on_a_screen(each, OVERLAPS, width=width, profile=profile) == ""


@pytest.mark.parametrize("gain", [0.0004, 0.05, 0.6, -0.02])
def test_no_label_of_the_gain_lies_on_another_or_leaves_the_screen(profile, tmp_path, gain):
    held = {"event": "accepted", "before": 0.3, "after": 0.3 + gain, "interval": [gain / 2 - 0.001, 1.4 * gain + 0.001]}
    page = write_report(run_of([{**held, "accepted": False, "level": 0.9}]), tmp_path / "gain.html")
    outside = """[...document.querySelectorAll('.gain text')].filter(t => { const box = t.getBoundingClientRect();
      return box.width > 0 && (box.left < 0 || box.right > innerWidth); }).map(t => t.textContent).join()"""
    assert on_a_screen(page, OVERLAPS, width=390, profile=profile) == ""
    assert on_a_screen(page, outside, width=390, profile=profile) == ""


def test_a_label_on_another_would_have_been_seen(html, profile):
    text = html.read_text(encoding="utf-8")
    crowded = html.with_name("crowded.html")
    one = '<text x="50" y="50">one</text><text x="52" y="50">two</text>'
    drawn = '<svg role="img" viewBox="0 0 100 100">'
    crowded.write_text(text.replace("<main>", f"<main>{drawn}{one}</svg>"), encoding="utf-8")
    assert "one | two" in on_a_screen(crowded, OVERLAPS, width=390, profile=profile)


@pytest.fixture(scope="module")
def weights_html(weights_folder, tmp_path_factory):
    """Stages and a metric with long names."""
    lines = (weights_folder / NAME).read_text().splitlines()
    events = [json.loads(line) for line in lines]
    events[0]["metric"]["name"] = "balanced_accuracy"
    return write_report(run_of(events), tmp_path_factory.mktemp("page") / "weights.html")


@pytest.mark.parametrize("which", ["html", "weights_html"])
def test_every_column_of_every_table_is_in_sight_on_a_phone(which, profile, request):
    html = request.getfixturevalue(which)
    script = f"document.querySelectorAll('details').forEach(e => e.open = true), {HIDDEN_COLUMNS}"
    assert on_a_screen(html, script, width=390, profile=profile) == ""


def test_a_click_on_a_column_sorts_and_a_second_one_turns_it_round(html, profile, folder):
    click = """(() => {
      const table = document.querySelector('#table-queries');
      const column = () => [...table.tBodies[0].rows].map(row => row.cells[2].dataset.value);
      const head = table.tHead.rows[0].cells[2];
      head.querySelector('button').click(); const up = column();
      head.querySelector('button').click(); const down = column();
      return up.join() + ';' + down.join() + ';' + head.getAttribute('aria-sort');
    })()"""
    said, _ = browser.probed(html, click, profile=profile)
    up, down, order = said.split(";")
    values = sorted(read_run(folder).values.tolist())
    assert np.allclose([float(each) for each in up.split(",")], values)
    assert np.allclose([float(each) for each in down.split(",")], values[::-1])
    assert order == "descending"


def test_words_sort_by_the_alphabet(html, profile):
    click = """(() => {
      const table = document.querySelector('#table-stages');
      table.tHead.rows[0].cells[0].click();
      return [...table.tBodies[0].rows].map(row => row.cells[0].textContent).join();
    })()"""
    said, _ = browser.probed(html, click, profile=profile)
    assert said.split(",") == sorted(said.split(","))


def test_no_request_leaves_the_page(html, paper_html, profile):
    for each in (html, paper_html):
        count, _ = browser.probed(each, "performance.getEntriesByType('resource').length", profile=profile)
        assert count == "0"


def test_a_request_would_have_been_counted(html, profile):
    loud = html.with_name("loud.html")
    text = html.read_text(encoding="utf-8")
    loud.write_text(text.replace("<main>", '<img src="http://localhost.invalid/x.png"><main>'), encoding="utf-8")
    count, _ = browser.probed(loud, "performance.getEntriesByType('resource').length", profile=profile)
    assert count == "1"


def shot(html, target, profile, *, size, flags=()):
    browser.chromium(html, f"--screenshot={target}", f"--window-size={size}", *flags, profile=profile)
    return imread(target)[..., :3]


def test_screenshots_of_screen_phone_dark_and_paper(html, profile, tmp_path):
    demo = os.environ.get("METRICOPT_DEMO")
    if demo:
        html = write_report(read_run(demo), html.with_name("demo.html"))
    target = Path(os.environ.get("METRICOPT_SCREENSHOTS", tmp_path)).resolve()
    light = shot(html, target / "report-desktop.png", profile, size="1100,1700")
    dark = shot(
        html,
        target / "report-dark.png",
        profile,
        size="1100,1700",
        flags=["--blink-settings=preferredColorScheme=0"],
    )
    frame = html.with_name("phone.html")
    style = "margin:0;display:block;border:0;width:390px;height:1700px"
    frame.write_text(f"<body style='margin:0'><iframe style='{style}' src='{html.name}'></iframe>")
    phone = shot(frame, target / "report-phone.png", profile, size="500,1700")
    assert light.mean() > 0.8 > 0.3 > dark.mean()
    assert all(picture.std() > 0.05 for picture in (light, dark, phone[:, :390]))
    _crop(target / "report-phone.png", 390)
    pages = _printed(html, target, profile)
    assert pages is None or pages.mean() > 0.8
    assert all(path.stat().st_size < 300_000 for path in target.glob("report-*.png"))


def _crop(path, width):
    from matplotlib.image import imsave

    imsave(path, np.ascontiguousarray(imread(path)[:, :width, :3]))


def _printed(html, target, profile):
    """The first page on paper as a picture, where there is a tool to make one."""
    paper = html.with_suffix(".pdf")
    browser.chromium(html, f"--print-to-pdf={paper}", "--no-pdf-header-footer", profile=profile)
    assert paper.read_bytes().startswith(b"%PDF")
    tool = shutil.which("pdftoppm")
    if tool is None:
        return None
    command = [tool, "-r", "80", "-png", "-singlefile", str(paper), str(target / "report-print")]
    subprocess.run(command, check=True, timeout=60)
    return imread(target / "report-print.png")[..., :3]
