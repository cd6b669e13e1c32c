from __future__ import annotations

from sidecar_resize.audit import Audit
from sidecar_resize.audit_columns import audit_columns


def test_what_is_no_unicode_in_a_message_is_escaped():
    audits = [Audit(detail="ValueError: no \udce9"), Audit(valid=True, color_note="größer", width=7)]
    columns = audit_columns("a", audits)
    assert columns["a_detail"].to_pylist() == ["ValueError: no \\udce9", None]
    assert columns["a_color_note"].to_pylist() == [None, "größer"]
    assert columns["a_width"].to_pylist() == [None, 7]
    assert columns["a_valid"].to_pylist() == [False, True]
