"""Whatever the data hold, what is shown is short, visible and can be encoded."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from sidecar_cli.report.shown_text import SHOWN_CHARACTERS, shown, value_at, values_of


@given(st.text() | st.binary() | st.none() | st.integers() | st.text(alphabet="\u202e\ud800\0\n<'\"", max_size=500))
def test_it_is_safe(value):
    text = shown(value)
    text.encode()
    assert len(text) <= 6 * (SHOWN_CHARACTERS + 60)
    assert not [each for each in text if unicodedata.category(each) in ("Cc", "Cs") or each in "\u202e\u2066\u200b"]


def test_what_it_does_to_text():
    assert shown("gedreht/größe=640 ✓.jpg") == "gedreht/größe=640 ✓.jpg"
    assert shown("a\u202egpj.exe") == "a\\u202egpj.exe"
    assert shown("tab\tline\n\ud800") == "tab\\tline\\n\\ud800"
    assert shown(b"\xff\x00a") == "\\xff\\x00a"
    long = shown("x" * 9_000 + "/the-end.jpg")
    assert long.endswith("the-end.jpg (9,012 characters)")
    assert len(long) < 300


def test_text_in_arrow_that_is_not_utf_8():
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"\xff", b"ok"]).buffers())
    assert values_of(broken) == [b"\xff", "ok"]
    assert value_at(broken, 0) == b"\xff"
