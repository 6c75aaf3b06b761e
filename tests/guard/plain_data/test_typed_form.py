"""Is a value of a class written so that its annotation brings it back, and is code never named?"""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field, ImportString

from nottwice.errors import NotPlainData
from nottwice.guard.plain_data.typed_form import TypedForm, build_adapter, explain, restore


class Order(BaseModel):
    number: int = Field(alias="no")
    note: str = ""
    due: date | None = None


def form(annotation: Any) -> TypedForm:
    return TypedForm(
        annotation, type_text="Order", where="the order", outcome="Nothing ran.", reveal=False
    )


def test_what_was_written_is_read_back() -> None:
    order = Order(no=7, due=date(2026, 1, 1))
    plain = form(Order).write(order, "$", keep_unset=False)
    assert plain == {"no": 7, "note": "", "due": "2026-01-01"}
    assert form(Order).read(plain) == order


def test_what_was_not_set_stays_unset_where_that_is_wanted() -> None:
    plain = form(Order).write(Order(no=7), "$", keep_unset=True)
    assert plain == {"no": 7}
    assert form(Order).read(plain).model_fields_set == {"number"}


def test_equal_values_have_one_normal_form() -> None:
    written = [form(Order).write_normal(each, "$") for each in (Order(no=7), Order(no=7, note=""))]
    assert written == [{"no": 7}, {"no": 7}]


def test_a_value_that_would_not_come_back_is_refused() -> None:
    with pytest.raises(NotPlainData, match=r"^The order cannot be kept: .* Nothing ran\."):
        form(Order).write({1, 2}, "$", keep_unset=False)


def test_an_annotation_that_names_code_counts_as_missing() -> None:
    adapter, note = build_adapter(ImportString)
    assert "stored text must not name code" in str(note)
    assert restore(adapter, "os.system") == "os.system"
    assert form(ImportString).note == note


def test_an_explanation_names_the_place_but_not_the_value() -> None:
    with pytest.raises(Exception) as caught:
        form(Order).read({"no": "hunter2"})
    path, text = explain(caught.value, root="$")
    assert path == "$.no"
    assert "hunter2" not in text
