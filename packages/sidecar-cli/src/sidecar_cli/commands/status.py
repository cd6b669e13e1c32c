"""`sidecar status`: what a run is doing or did."""

from __future__ import annotations

from typing import Annotated

import typer
from sidecar_core.errors import StorageNotFoundError, UsageError
from sidecar_runtimes.options import COMMON_OPTIONS

from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import open_output


@takes(COMMON_OPTIONS)
def status(
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="The prefix of an output.", show_default=False)],
    **options: OptionValue,
) -> None:
    """Show what a run into a prefix is doing, or did.

    It looks at the run folder and lists the shards. Manifests are written once a minute while a run goes on;
    the shards are those of this moment.
    """
    from sidecar_core.storage import normalise_prefix, open_storage
    from sidecar_runtimes.status import output_status

    from sidecar_cli.status_words import describe_status, status_view

    try:
        found = output_status(open_storage(normalise_prefix(prefix)))
    except StorageNotFoundError as error:
        raise UsageError(f"nothing is at {normalise_prefix(prefix)}", "the prefix of an output", error.fix) from error
    open_output(json=options["json"]).show(describe_status(found), status_view(found))
