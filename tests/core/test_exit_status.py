"""Statuses: what a command returns, and one line for what it raises on purpose."""

from __future__ import annotations

import pytest

from edgevlm.core import EngineError, UsageError, exit_status


@pytest.mark.parametrize(("returned", "status"), [(None, 0), (0, 0), (3, 3)])
def test_what_the_command_returns(returned: int | None, status: int) -> None:
    assert exit_status(lambda: returned) == status


@pytest.mark.parametrize(("kind", "status"), [(UsageError, 2), (EngineError, 1)])
def test_known_errors_are_one_line(
    kind: type[Exception], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise kind("no such thing")

    assert exit_status(command) == status
    assert capsys.readouterr().err == "error: no such thing\n"


def test_bugs_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_status(lambda: 1 // 0)
