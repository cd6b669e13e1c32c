"""Loading what ops need in every worker, once a process, before its first shard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sidecar_core.errors import OpError, SidecarError
from sidecar_core.side_inputs import side_input_loader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_core.dataset import Dataset
    from sidecar_core.op import BaseOp


def load_side_inputs(operations: Sequence[BaseOp], dataset: Dataset) -> dict[int, dict[str, object]]:
    """Loads the side inputs of all operations.

    Returns:
        What was loaded, by the op's position and the op's name for it.

    Raises:
        OpError: one did not load; the run cannot go on.
    """
    loaded: dict[int, dict[str, object]] = {}
    for index, op in enumerate(operations):
        for name, spec in op.declare_side_inputs(dataset).items():
            try:
                value = side_input_loader(spec.loader)(spec.params, dataset)
            except SidecarError:
                raise
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                message = f"operations[{index}] {op.type_name!r}: side input {name!r} did not load: {said}"
                raise OpError(message) from error
            loaded.setdefault(index, {})[name] = value
    return loaded
