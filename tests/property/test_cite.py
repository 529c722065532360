"""A changed digit always loses support."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from muniment_retrieval.cite import check_answer
from muniment_retrieval.figures import figures, missing_figures
from tests.helpers.pages import evidence, lines_of

NUMBER = st.integers(0, 10**9).map(lambda value: f"{value:,}") | st.decimals(0, 10**6, places=2).map(str)


@given(st.lists(NUMBER, min_size=1, max_size=5), st.data())
def test_mutated_digit_loses_support(numbers: list[str], data: st.DataObject) -> None:
    line = "Total harbour fees " + " ".join(numbers)
    shown = evidence("Fees of the port\n" + line)
    answer = data.draw(st.sampled_from(numbers))
    assert check_answer(line, answer, shown, lambda _: lines_of(shown[0].passage.text)).main_supported

    positions = [index for index, character in enumerate(answer) if character.isdigit()]
    position = data.draw(st.sampled_from(positions))
    digit = data.draw(st.sampled_from([digit for digit in "0123456789" if digit != answer[position]]))
    mutated = answer[:position] + digit + answer[position + 1 :]
    values = {figure.value for figure in figures(line)}
    assume(figures(mutated)[0].value not in values)
    for copied in (line, line.replace(answer, mutated), ""):
        checked = check_answer(copied, mutated, shown, lambda _: lines_of(shown[0].passage.text))
        assert not checked.main_supported
        assert checked.citations == ()


@given(NUMBER)
def test_forms_of_one_number_are_equal(number: str) -> None:
    wide = number.translate({ord(digit): ord(digit) + 0xFEE0 for digit in "0123456789"})
    assert missing_figures(wide, [number]) == []
    assert missing_figures(f"-{number}", [f"({number})"]) == []
    assert missing_figures(number.replace(",", ""), [f"about {number} tons"]) == []


@given(NUMBER)
def test_minus_never_appears_from_nowhere(number: str) -> None:
    assert missing_figures(f"-{number}", [number]) != []
