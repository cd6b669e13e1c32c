"""Turns what an op raises while it is checked into problems at its place in the YAML."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sidecar_core.errors import ConfigError, SidecarError
from sidecar_core.plugin_faults import log_traceback, words_of

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Protocol

    from sidecar_core.config import ProblemCollector
    from sidecar_core.problems import Problem
    from sidecar_core.yaml_document import Loc

    class Locates(Protocol):
        """A pipeline, or the document of one that is still being checked."""

        def problem(
            self, loc: Loc, message: str, *, expected: str | None = None, fix: str | None = None
        ) -> Problem: ...


@contextmanager
def op_problems(document: Locates, index: int, problems: ProblemCollector) -> Generator[None]:
    """Takes in what `operations[index]` raises inside: problems, a ValueError, or a fault of its own."""
    loc = ("operations", index)
    try:
        yield
    except ConfigError as error:
        for problem in error.problems:
            if problem.file is not None:
                problems.add(problem)
            else:
                message = f"{problem.key_path}: {problem.message}" if problem.key_path else problem.message
                problems.add(document.problem(loc, message, expected=problem.expected, fix=problem.fix))
    except OSError:  # storage that failed while a run was planned: nothing is wrong with the YAML
        raise
    except SidecarError as error:
        problems.add(document.problem(loc, error.message, expected=error.expected, fix=error.fix))
    except ValueError as error:
        problems.add(document.problem(loc, str(error)))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything; it becomes a problem
        log_traceback(error)
        problems.add(document.problem(loc, f"the op raised {words_of(error)}"))
