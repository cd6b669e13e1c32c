"""`sidecar doctor`: what works on this machine, and what to do about what does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from sidecar_runtimes.options import COMMON_OPTIONS, Option

from sidecar_cli.exit_codes import ExitCode
from sidecar_cli.options import OptionValue, takes
from sidecar_cli.output import Block, Table, open_output

if TYPE_CHECKING:
    from sidecar_cli.doctor.finding import Finding

_MORE, _STORE, _TORTURE = "What else to look at", "How to reach prefixes", "Torture"
_TIME_LIMIT_S = 240.0
_FOR_TORTURE = ("runtime", "time_limit_s")
_FOR_PREFIXES = ("write_test", "region", "profile", "endpoint_url")
_OPTIONS = (
    Option(
        "--write-test",
        "also write and remove a small object below PREFIX when it is an output, else below PREFIX_sidecar/",
        _MORE,
        type=bool,
        default=False,
    ),
    Option("--ray-address", "of a cluster to attach to; default RAY_ADDRESS", _MORE, metavar="ADDRESS"),
    Option("--region", "AWS region; default what AWS_REGION says", _STORE, metavar="NAME"),
    Option("--profile", "AWS profile; default what AWS_PROFILE says", _STORE, metavar="NAME"),
    Option("--endpoint-url", "of a server that is compatible with S3", _STORE, metavar="URL"),
    Option(
        "--torture",
        "run malformed pictures and ops that abort, hang and eat memory through each installed runtime",
        _TORTURE,
        type=bool,
        default=False,
    ),
    Option(
        "--runtime",
        "with --torture: only this one, may be repeated; default all that are installed",
        _TORTURE,
        choices=("local", "ray", "actor"),
        repeated=True,
        metavar="local|ray|actor",
    ),
    Option(
        "--time-limit-s",
        f"with --torture: what a runtime has not shown after so long has failed; default {_TIME_LIMIT_S:.0f}",
        _TORTURE,
        type=float,
        metavar="SECONDS",
        above=0,
    ),
    *COMMON_OPTIONS,
)


@takes(_OPTIONS)
def doctor(
    prefixes: Annotated[
        list[str] | None,
        typer.Argument(metavar="PREFIX", help="Datasets or outputs to try to reach.", show_default=False),
    ] = None,
    **options: OptionValue,
) -> None:
    """Check the machine, and say what to do about what fails.

    It looks at versions, decoders (in child processes), memory and its cap, disks, cores, each PREFIX and the Ray
    cluster that is named. Each line is ok, warn or fail; when one fails, the exit code is 1. Main datasets are
    never written.

    --torture takes one to three minutes on a quiet machine. It kills a driver with SIGKILL on each runtime, goes on
    from there, and shows that bad rows cost only themselves, that nothing is lost, and that every runtime gives the
    same values.
    """
    from sidecar_cli.doctor.finding import Level

    _refuse_unheeded(prefixes or [], options)
    found = list(_findings(prefixes or [], options))
    counts = {level.value: sum(each.level is level for each in found) for level in Level}
    passed = not counts["fail"]
    data = {"ok": passed, "counts": counts, "findings": [asdict(each) for each in found]}
    open_output(json=options["json"]).show(data, _view(found, counts))
    if not passed:
        raise typer.Exit(ExitCode.FOUND_FAILURES)


def _refuse_unheeded(prefixes: list[str], options: dict[str, Any]) -> None:
    """Raises UsageError for an option that nothing would heed."""
    from sidecar_core.errors import UsageError

    for names, what, heeded in ((_FOR_TORTURE, "--torture", options["torture"]), (_FOR_PREFIXES, "a PREFIX", prefixes)):
        for name in names:
            if options[name] and not heeded:
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} is for {what}", None, f"{what}, or leave out {flag}")


def _findings(prefixes: list[str], options: dict[str, Any]) -> Iterator[Finding]:
    from sidecar_core.dataset import StorageOptions
    from sidecar_core.storage import normalise_prefix

    from sidecar_cli.doctor import decoders, machine
    from sidecar_cli.doctor.finding import guarded
    from sidecar_cli.doctor.prefix_access import prefix_findings
    from sidecar_cli.doctor.ray_check import ray_findings

    for prefix in prefixes:
        normalise_prefix(prefix)  # bad usage is said before anything is done
    storage = StorageOptions(**{key: options[key] or None for key in ("region", "profile", "endpoint_url")})
    looks: list[tuple[str, Any]] = [
        ("versions", machine.version_findings),
        ("cores", machine.core_findings),
        ("memory", machine.memory_findings),
        ("disks", machine.disk_findings),
        ("decoders", decoders.decoder_findings),
        *(
            (f"prefix {prefix}", partial(prefix_findings, prefix, storage, may_write=options["write_test"]))
            for prefix in prefixes
        ),
        ("ray cluster", partial(ray_findings, options["ray_address"])),
    ]
    if options["torture"]:
        from sidecar_cli.torture.run import torture

        say = partial(typer.echo, err=True)
        runtimes, limit_s = options["runtime"] or None, options["time_limit_s"] or _TIME_LIMIT_S
        looks.append(("torture", partial(torture, runtimes, time_limit_s=limit_s, say=say)))
    for what, look in looks:
        yield from guarded(what, look, debug=options["debug"])


def _view(found: list[Finding], counts: dict[str, int]) -> list[Block]:
    mending = [f"  {each.what}: {each.fix}" for each in found if each.fix]
    lines = [(each.level.value, each.what, each.fact) for each in found]
    view: list[Block] = [Table(("", "what", "found"), lines)]
    if mending:
        view += ["", "What to do:", *mending]
    view += ["", ", ".join(f"{number} {level}" for level, number in counts.items())]
    return view
