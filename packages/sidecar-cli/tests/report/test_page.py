"""The page in a real browser: hostile text, keyboard, phone, dark mode, print."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pyarrow.compute as pc
import pytest
from sidecar_cli.report.figures import Picture
from sidecar_cli.report.file import write_file
from sidecar_cli.report.gather import ReportOptions, gather_report
from sidecar_cli.report.page import PICTURES_LIMIT_BYTES, render_page
from sidecar_core.storage import open_storage

CONTRAST = """() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return {rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1};
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color.alpha === 1) return color.rgb;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || ["SCRIPT", "STYLE", "title"].includes(element.tagName)) continue;
    const [a, b] = [light(parse(getComputedStyle(element).color).rgb), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([element.className || element.tagName, ratio.toFixed(2)].join(" "));
  }
  return [...new Set(poor)];
}"""
REACHABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']"


@pytest.fixture(scope="module")
def dirty(make_dirty, tmp_path_factory):
    return make_dirty(tmp_path_factory.mktemp("dirty"))


@pytest.fixture(scope="module")
def data(dirty):
    return gather_report(open_storage(f"{dirty.out}/"), ReportOptions(workers=1))


@pytest.fixture
def file(data, tmp_path):
    write_file(tmp_path / "report.html", render_page(data))
    return tmp_path / "report.html"


@pytest.fixture
def page(file, chromium_page):
    """The report of the dirty dataset, opened."""
    chromium_page.goto(file.as_uri())
    return chromium_page


def test_hostile_text_is_text(page, images_shown):
    shown = images_shown(page)
    assert len(shown) > 8
    assert all(shown)
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.scripts.length") == 1
    assert (
        page.evaluate("document.querySelectorAll('svg[onload], img[onerror], iframe, object, embed, link').length") == 0
    )
    hrefs = page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert {href[0] for href in hrefs} == {"#"}
    text = page.evaluate("document.body.innerText")
    assert "data <script>window.hacked=1</script>" in text
    assert "\\u202egpj.exe" in text
    assert "{{ 7*7 }}" in text
    source = page.content()
    assert not re.search("[\u202e\ud800-\udfff]", source)
    assert max(map(len, re.findall(r"x{50,}", text))) < 300


def test_every_link_leads_somewhere_and_headings_are_in_order(page):
    missing = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.getElementById(a.hash.slice(1))).length"
    )
    assert missing == 0
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.evaluate("[...document.querySelectorAll('th')].every(th => th.scope)")
    assert page.evaluate("[...document.images].every(image => image.alt)")


def test_the_keyboard_reaches_everything_in_order_and_the_focus_is_seen(page):
    wanted = page.evaluate(
        f'[...document.querySelectorAll("{REACHABLE}")].filter(e => e.checkVisibility()'
        " && !e.closest('details:not([open]) > :not(summary)')).map((e, i) => (e.dataset.stop = i, i))"
    )
    reached, unseen = [], []
    for _ in wanted:
        page.keyboard.press("Tab")
        stop, outline = page.evaluate(
            "[document.activeElement.dataset.stop, getComputedStyle(document.activeElement).outlineStyle]"
        )
        reached.append(stop)
        if outline == "none":
            unseen.append(stop)
    assert reached == [str(each) for each in wanted]
    assert unseen == []
    assert page.evaluate("document.querySelector('.skip').dataset.stop") == "0"


def test_sorting_and_filtering(page):
    first = "document.querySelector('#columns tbody th').innerText"
    page.click("#columns th:nth-child(4) button")
    assert page.evaluate(first) == "image_key"
    page.click("#columns th:nth-child(4) button")
    assert page.evaluate(first) == "filter_x"
    assert page.get_attribute("#columns th:nth-child(4)", "aria-sort") == "descending"
    page.fill("#filter", "LEVEL")
    assert page.evaluate("[...document.querySelectorAll('[data-name]')].filter(e => e.checkVisibility()).length") == 1
    page.fill("#filter", "")
    assert page.evaluate("[...document.querySelectorAll('[data-name]')].every(e => e.checkVisibility())")


def test_figures_on_the_page_are_arrow_s(page, dirty):
    rows = page.evaluate(
        "[...document.querySelectorAll('#columns tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    for name, share, populated, null, *_ in rows:
        column = dirty.table[name]
        expected = (
            pc.sum(pc.struct_field(column.combine_chunks(), "dhash").is_null()).as_py()
            if name == "filter_x"
            else column.null_count
        )
        assert (int(null), int(populated)) == (expected, 24 - expected)
        assert share.strip().startswith(f"{100 * (24 - expected) / 24:.1f}".removesuffix(".0"))
    card = page.evaluate(
        "[...document.querySelectorAll('[data-name=\"filter_x.mean\"] .figures div')].map(d => d.innerText)"
    )
    finite = dirty.finite("mean")
    said = dict(each.split(maxsplit=1) for each in card)
    assert said["min"] == f"{min(finite):,.0f}"
    assert float(said["max"]) == pytest.approx(max(finite), rel=1e-3)
    assert (said["null"], said["NaN"], said["infinite"]) == ("33.3 %", "1", "1")


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_has_nothing_to_scroll_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.body.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page, scheme):
    page.emulate_media(color_scheme=scheme)
    assert page.evaluate(CONTRAST) == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground))) < 200) == (scheme == "dark")


def test_without_scripts_nothing_is_missing_and_no_button_is_dead(page):
    context = page.context.browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(page.url)
    assert plain.locator("button").count() == 0
    assert not plain.locator("#filter").is_visible()
    assert plain.locator("#columns tbody tr").count() == 4
    assert plain.locator("h4").count() == page.locator("h4").count()
    context.close()


def test_a_script_that_is_not_ours_does_not_run(file, page):
    file.write_text(file.read_text().replace('"use strict";', '"use strict"; window.hacked = 1;'))
    context = page.context.browser.new_context()
    tampered = context.new_page()
    tampered.goto(file.as_uri())
    assert tampered.evaluate("window.hacked") is None
    context.close()


def test_paper_shows_what_is_folded_and_no_controls(page):
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    assert len(page.pdf()) > 10_000


def test_the_page_stays_small_however_large_pictures_are(data, tmp_path):
    large = {place: Picture(b"x" * 2**20, "image/webp", 9, 9) for place in data.pictures}
    size = write_file(tmp_path / "large.html", render_page(replace(data, pictures=large)))
    assert PICTURES_LIMIT_BYTES < size < 10_000_000
    assert "left out: the page would become too large" in (tmp_path / "large.html").read_text()
