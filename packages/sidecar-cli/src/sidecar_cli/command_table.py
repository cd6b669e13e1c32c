"""The commands of `sidecar`: their names, where each lives, and the examples in its help."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command and where it lives: function `function` in `sidecar_cli.commands.<module>`.

    Attributes:
        name: as typed.
        module: module below `sidecar_cli.commands`.
        function: the function there.
        panel: headline under which help lists it.
        examples: command lines for its help.
    """

    name: str
    module: str
    function: str
    panel: str
    examples: tuple[str, ...]


_START = "Start"
_MAKE = "Make sidecars"
_PROVE = "Prove and look"

COMMANDS: tuple[Command, ...] = (
    Command("demo", "demo", "demo", _START, ("sidecar demo", "sidecar demo /tmp/sidecar-demo")),
    Command(
        "pack",
        "pack",
        "pack",
        _START,
        (
            "sidecar pack holiday-pictures/ data/holiday_parquet/",
            "sidecar pack pets/ s3://b/pets_parquet/ --dataset-yaml configs/datasets/pets.yaml",
        ),
    ),
    Command(
        "init",
        "init",
        "init",
        _START,
        (
            "sidecar init pets --main-prefix data/pets_parquet/",
            "sidecar init pets --main-prefix s3://b/pets_parquet/ --pipeline resized",
        ),
    ),
    Command(
        "doctor",
        "doctor",
        "doctor",
        _START,
        ("sidecar doctor", "sidecar doctor s3://b/pets_parquet/ --write-test", "sidecar doctor --torture"),
    ),
    Command(
        "run",
        "run",
        "run",
        _MAKE,
        (
            "sidecar run configs/pipelines/pets.yaml --output-prefix s3://b/pets_sidecar/",
            "sidecar run configs/pipelines/pets.yaml --dry-run",
        ),
    ),
    Command(
        "build-0-262mp",
        "build_resized",
        "build_0_262mp",
        _MAKE,
        ("sidecar build-0-262mp --main-prefix s3://b/pets_parquet/ --output-prefix s3://b/0_262mp/pets/",),
    ),
    Command(
        "build-1-05mp",
        "build_resized",
        "build_1_05mp",
        _MAKE,
        ("sidecar build-1-05mp --main-prefix s3://b/pets_parquet/ --output-prefix s3://b/1_05mp/pets/",),
    ),
    Command(
        "build-resized",
        "build_resized",
        "build_resized",
        _MAKE,
        ("sidecar build-resized --main-prefix data/pets/ --target 512=data/pets_512/ --target 1024=data/pets_1024/",),
    ),
    Command(
        "plan",
        "plan",
        "plan",
        _MAKE,
        (
            "sidecar plan configs/pipelines/filters_v1.yaml --target-rows-per-hour 10000000 --smoke 4",
            (
                "sidecar plan x.yaml --target-rows-per-hour 1000000 --observed-rate 0.1 --observed-actors 8 "
                "--actor-memory-gb 6"
            ),
        ),
    ),
    Command(
        "retry",
        "retry",
        "retry",
        _MAKE,
        ("sidecar retry configs/pipelines/pets.yaml --output-prefix s3://b/pets_sidecar/ --reason timeout,crashed",),
    ),
    Command(
        "verify",
        "verify",
        "verify",
        _PROVE,
        (
            "sidecar verify configs/pipelines/pets.yaml --output-prefix s3://b/pets_sidecar/",
            "sidecar verify s3://b/pets_sidecar/ --main-prefix s3://b/pets_parquet/ --all",
        ),
    ),
    Command(
        "verify-resized",
        "verify_resized",
        "verify_resized",
        _PROVE,
        ("sidecar verify-resized --main-prefix s3://b/pets_parquet/ --target 512=s3://b/0_262mp/pets/",),
    ),
    Command(
        "report",
        "report",
        "report",
        _PROVE,
        ("sidecar report s3://b/pets_sidecar/ --open", "sidecar report out/ -o report.html --sample-shards 100"),
    ),
    Command(
        "status", "status", "status", _PROVE, ("sidecar status s3://b/pets_sidecar/", "sidecar status out/ --json")
    ),
    Command(
        "inspect",
        "inspect",
        "inspect",
        _PROVE,
        (
            "sidecar inspect s3://b/pets_sidecar/",
            "sidecar inspect out/ --sql 'select filter_status.status, count(*) from data group by 1'",
            "sidecar inspect out/ --main-prefix data/pets/ --sql 'select caption, filter_luma.mean from data limit 9'",
        ),
    ),
    Command(
        "overlay",
        "overlay",
        "overlay",
        _PROVE,
        (
            "sidecar overlay s3://b/pets_boxes/ --sample 24 -o boxes.html",
            "sidecar overlay configs/pipelines/boxes.yaml --key pets/0001.jpg -o boxes/",
            "sidecar overlay --main-prefix data/pets/ --resized 512=data/pets_512/",
        ),
    ),
    Command("check", "check", "check", _PROVE, ("sidecar check configs/pipelines/*.yaml",)),
    Command("ops", "ops", "ops", _PROVE, ("sidecar ops", "sidecar ops cast_columns")),
    Command("filters", "filters", "filters", _PROVE, ("sidecar filters", "sidecar filters clarity")),
    Command(
        "schema",
        "schema",
        "schema",
        _PROVE,
        ("sidecar schema filter_luma_v1", "sidecar schema --json-schema pipeline > pipeline.schema.json"),
    ),
)
