"""One `sidecar init` from its options to the two files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar_core.config import check_name
from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import ConfigError, RefusedError, StorageNotFoundError, UsageError
from sidecar_core.pipeline import load_pipeline
from sidecar_core.storage import normalise_prefix, open_storage, prefixes_overlap
from sidecar_core.storage.uris import scheme_of
from sidecar_filters.registry import find_filters

from sidecar_cli.dataset_yaml import dataset_name, sidecar_prefix_beside
from sidecar_cli.folder_scan import IMAGE_EXTENSIONS
from sidecar_cli.init.choose import Asker, Choice, choose_image, choose_key, person_at_terminal
from sidecar_cli.init.look import Look, look_at
from sidecar_cli.init.write import (
    PIPELINES,
    STANDARD_FILTERS,
    ConfigFiles,
    NewConfig,
    config_files,
    resized_prefixes,
    write_config,
)
from sidecar_cli.program_name import program_name

if TYPE_CHECKING:
    from sidecar_core.storage import Storage

_FILES_LOOKED_AT = 2000


@dataclass(frozen=True)
class InitReport:
    """What was found and written.

    Attributes:
        config: what the files say.
        files: the files.
        look: what the prefix holds.
        key: how the key column was chosen.
        image: how the image column was chosen.
    """

    config: NewConfig
    files: ConfigFiles
    look: Look
    key: Choice
    image: Choice

    @property
    def warnings(self) -> list[str]:
        """What is doubtful."""
        skipped = [f"{each} (left out of the look)" for each in self.look.unreadable]
        return [each.warning for each in (self.key, self.image) if each.warning] + skipped

    def next_commands(self) -> list[str]:
        """Returns what to type next, quoted for a shell."""
        program = program_name()
        path = shlex.quote(str(self.files.pipeline))
        where = (
            "" if self.config.pipeline == "resized" else f" --output-prefix {shlex.quote(self.config.sidecar_prefix)}"
        )
        steps = [f"{program} check {path}", f"{program} run {path}{where} --dry-run"]
        if self.look.shards > 1:
            steps.append(f"{program} run {path}{where} --limit 1")
        verify = self._verify_resized() if self._is_usual_resized else f"verify {path}{where}"
        return [*steps, f"{program} run {path}{where} --skip-existing", f"{program} {verify} --all"]

    @property
    def _is_usual_resized(self) -> bool:
        """Whether `verify-resized` can look at what the pipeline makes: it knows storage from the environment only."""
        return self.config.pipeline == "resized" and self.config.storage == StorageOptions()

    def _verify_resized(self) -> str:
        """Returns the verifier that looks at the pictures too, and whose receipt moving boxes asks for."""
        words = ["verify-resized", "--main-prefix", self.config.main_prefix, "--key-column", self.config.key_column]
        for side, prefix in resized_prefixes(self.config.main_prefix).items():
            words += ["--target", f"{side}={prefix}"]
        return shlex.join(words)


def init_dataset(name: str, options: Mapping[str, Any]) -> InitReport:
    """Looks at a prefix and writes a dataset YAML and a pipeline YAML for it.

    Args:
        name: of the dataset.
        options: the command's options.

    Raises:
        UsageError: something is wrong or missing, and there is nobody to ask.
        RefusedError: a file exists, or the sidecar would touch the main dataset.
    """
    _check_name(name)
    files = config_files(Path(options["configs"]), name)
    if not options["force"]:
        files.refuse_existing()
    pipeline = str(options["pipeline"])
    filters = _filters(options["filters"], pipeline)
    storage = StorageOptions(**{key: options[key] or None for key in ("region", "profile", "endpoint_url")})
    person = person_at_terminal()
    typed, look = _look(options["main_prefix"], storage, person)
    sidecar_typed = options["sidecar_prefix"]
    sidecar = normalise_prefix(sidecar_typed) if sidecar_typed else sidecar_prefix_beside(look.prefix)
    if prefixes_overlap(look.prefix, sidecar):
        message = f"the sidecar {sidecar} would be equal to, inside or around the main dataset {look.prefix}"
        raise RefusedError(
            message, "a prefix of its own", f"--sidecar-prefix {shlex.quote(sidecar_prefix_beside(look.prefix))}"
        )
    key = choose_key(look, options["key_column"], person)
    image = choose_image(look, options["image_column"], person, required=pipeline != "scaffold")
    if key.column is None or key.column == image.column:
        raise UsageError(f"{key.column!r} cannot be both the key and the image column")
    config = NewConfig(
        name=name,
        main_prefix=look.prefix,
        sidecar_prefix=sidecar,
        key_column=key.column,
        image_column=image.column,
        storage=storage,
        pipeline=pipeline,
        filters=filters,
        relative=not (Path(typed).expanduser().is_absolute() or "://" in typed),
    )
    write_config(files, config, force=options["force"])
    load_pipeline(files.pipeline)  # what was written is right, or says where it is not
    return InitReport(config, files, look, key, image)


def _check_name(name: str) -> None:
    try:
        check_name(name, "name")
    except ConfigError as error:
        (problem,) = error.problems
        raise UsageError(problem.message, problem.expected, f"{program_name()} init {dataset_name(name)}") from error


def _filters(given: str | None, pipeline: str) -> Sequence[str]:
    if given is None:
        return STANDARD_FILTERS
    if pipeline != "filters":
        raise UsageError(
            f"--filters is for --pipeline filters, and this is {pipeline!r}", None, "leave one of them out"
        )
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise UsageError("--filters names none", fix="--filters luma,clarity")
    find_filters(names)
    return names


def _look(given: str | None, storage: StorageOptions, person: Asker | None) -> tuple[str, Look]:
    """Returns the main prefix as it was typed, and what it holds."""
    if given is not None:
        return given, _look_at_prefix(given, storage)
    fix = "--main-prefix s3://bucket/folder/, or a local folder of Parquet files"
    if person is None:
        raise UsageError("init needs --main-prefix, the dataset to look at", fix=fix)
    return person.ask(
        "Where is the main dataset? (a folder of Parquet files, or s3://bucket/folder/)",
        lambda answer: (answer, _look_at_prefix(answer, storage)),
        flag="--main-prefix",
    )


def _look_at_prefix(text: str, options: StorageOptions) -> Look:
    prefix = normalise_prefix(text)
    if scheme_of(prefix) == "file" and Path(prefix.rstrip("/") or "/").is_file():
        folder = Path(prefix.rstrip("/")).parent
        fix = f"--main-prefix {shlex.quote(str(folder))}"
        raise UsageError(f"{text!r} is a file", "the folder that holds the shards", fix)
    storage = open_storage(prefix, options)
    try:
        return look_at(storage)
    except StorageNotFoundError as error:
        raise UsageError(f"nothing is at {prefix}", "the prefix of a main dataset", error.fix) from error
    except UsageError as error:
        raise _say_what_is_there(storage, error) from error


def _say_what_is_there(storage: Storage, error: UsageError) -> UsageError:
    """Adds what to do about a folder that holds pictures or nothing."""
    if error.fix is not None or "no shards" not in error.message:
        return error
    if scheme_of(storage.prefix) == "file":
        folder = Path(storage.prefix)
        if not folder.is_dir():
            return UsageError(f"no folder {storage.prefix}", "the prefix of a main dataset", "check --main-prefix")
        some = (path for _, path in zip(range(_FILES_LOOKED_AT), folder.rglob("*"), strict=False))
        if any(path.suffix.lower() in IMAGE_EXTENSIONS for path in some):
            new = f"{storage.prefix.rstrip('/')}_parquet/"
            pack = f"{program_name()} pack {shlex.quote(storage.prefix)} {shlex.quote(new)}"
            fix = f"it holds pictures; make a dataset of them first: {pack}"
            return UsageError(error.message, error.expected, fix)
    return UsageError(error.message, error.expected, "check --main-prefix")


__all__ = ["PIPELINES", "InitReport", "init_dataset"]
