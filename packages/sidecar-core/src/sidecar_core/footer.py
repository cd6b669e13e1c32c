"""What a sidecar file says about itself in its Parquet footer, read without touching its rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sidecar_core.errors import ShardError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.parquet as pq

    from sidecar_core.storage import Storage

_PREFIX = b"sidecar."
_TAIL_BYTES = 64 * 2**10  # holds the footer of most shards
_END_BYTES = 8  # footer length and magic
_SMALLEST_FILE_BYTES = 12


@dataclass(frozen=True)
class InputVersion:
    """Which version of a file an output was made from.

    Attributes:
        kind: `main`, `sibling` or `side_input`.
        uri: the file's full path.
        size_bytes: its size.
        etag: its ETag, where there is one.
        mtime_ns: time of its last change in ns since 1970, where that is known.
        parquet_footer_digest: see `parquet_footer_digest`; None for files of another format.
    """

    kind: str
    uri: str
    size_bytes: int
    etag: str | None = None
    mtime_ns: int | None = None
    parquet_footer_digest: str | None = None


@dataclass(frozen=True)
class ReplacedTogether:
    """What a retry replaced in several outputs of a shard; by it one that ended between two of them is found out.

    Attributes:
        id: unique to this replacement, and the same in each of its files.
        was: per output, by its name, the `FooterInfo.made_by` of the file that was replaced.
        rows: per output, runs of first row and length in which the replaced rows are.
    """

    id: str
    was: Mapping[str, str]
    rows: Mapping[str, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class FooterInfo:
    """The `sidecar.*` key-value metadata of an output file.

    Attributes:
        fingerprint: of all that makes the file's columns.
        run_id: the run that wrote it.
        version: of sidecar-core then.
        inputs: the files that it was made from: the main shard, siblings' shards, then sources, in the order in which
            ops declare them.
        rows: its rows.
        key_digest: `sidecar_core.align.KeyDigest` of the whole key column.
        key_digest_row_groups: the same of each of its row groups.
        invalid: per judged column, the number of invalid rows by reason.
        together: what was replaced with the file, where a retry replaced those of several outputs.
    """

    fingerprint: str
    run_id: str
    version: str
    inputs: tuple[InputVersion, ...]
    rows: int
    key_digest: str
    key_digest_row_groups: tuple[str, ...]
    invalid: Mapping[str, Mapping[str, int]]
    together: ReplacedTogether | None = None

    @property
    def made_by(self) -> str:
        """What tells the file from those that were, or will be, in its place."""
        return self.run_id if self.together is None else self.together.id

    def inputs_of(self, kind: str) -> list[InputVersion]:
        """Returns the inputs of a kind, in their order."""
        return [version for version in self.inputs if version.kind == kind]

    def to_metadata(self) -> dict[bytes, bytes]:
        """Returns the metadata as Parquet stores it: text, and JSON where there is structure."""
        held: dict[str, str] = {
            "fingerprint": self.fingerprint,
            "run_id": self.run_id,
            "version": self.version,
            "inputs": _to_json([asdict(version) for version in self.inputs]),
            "rows": str(self.rows),
            "key_digest": self.key_digest,
            "key_digest_row_groups": _to_json(self.key_digest_row_groups),
            "invalid": _to_json({column: dict(reasons) for column, reasons in self.invalid.items()}),
        }
        if self.together is not None:
            held["together"] = _to_json(asdict(self.together))
        return {_PREFIX + name.encode(): value.encode() for name, value in held.items()}

    @classmethod
    def from_metadata(cls, metadata: Mapping[bytes, bytes] | None) -> FooterInfo | None:
        """Returns what `to_metadata` wrote, or None when there are no `sidecar.*` keys.

        Raises:
            ValueError: a key is missing or its value cannot be read.
        """
        held = {
            key.removeprefix(_PREFIX).decode(): value
            for key, value in (metadata or {}).items()
            if key.startswith(_PREFIX)
        }
        if not held:
            return None
        missing = [field.name for field in fields(cls) if field.default is MISSING and field.name not in held]
        if missing:
            raise ValueError(f"no key 'sidecar.{missing[0]}'")
        try:
            return cls(
                fingerprint=held["fingerprint"].decode(),
                run_id=held["run_id"].decode(),
                version=held["version"].decode(),
                inputs=tuple(_input_version(version) for version in json.loads(held["inputs"])),
                rows=int(held["rows"]),
                key_digest=held["key_digest"].decode(),
                key_digest_row_groups=tuple(json.loads(held["key_digest_row_groups"])),
                invalid={column: dict(reasons) for column, reasons in json.loads(held["invalid"]).items()},
                together=_replaced_together(json.loads(held["together"])) if "together" in held else None,
            )
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ValueError(f"unreadable 'sidecar.*' keys: {error}") from error


def read_footer(storage: Storage, rel_path: str) -> FooterInfo | None:
    """Returns what the file says about itself, or None when sidecar did not write it.

    Costs one or two reads at the file's end.

    Raises:
        ShardError: the file is no complete Parquet file, or its `sidecar.*` keys are damaged.
        StorageError: it could not be read.
    """
    return _footer_of(_read_metadata(storage, rel_path), storage, rel_path)


def read_footer_and_schema(storage: Storage, rel_path: str) -> tuple[FooterInfo | None, pa.Schema]:
    """Returns what `read_footer` returns, and the file's columns.

    Raises:
        ShardError: as `read_footer`, or a column has a type that Arrow does not know.
        StorageError: as `read_footer`.
    """
    parquet = _read_metadata(storage, rel_path)
    try:
        return _footer_of(parquet, storage, rel_path), parquet.schema.to_arrow_schema()
    except pa.ArrowException as error:
        raise _damaged(storage, rel_path, str(error).strip()) from error


def _read_metadata(storage: Storage, rel_path: str) -> pq.FileMetaData:
    import pyarrow.parquet as pq  # not needed to check a pipeline, and slow to load

    footer = _read_parquet_footer(storage, rel_path)
    try:
        return pq.read_metadata(pa.BufferReader(footer))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(storage, rel_path, str(error).strip()) from error


def _footer_of(parquet: pq.FileMetaData, storage: Storage, rel_path: str) -> FooterInfo | None:
    try:
        return FooterInfo.from_metadata(parquet.metadata)
    except ValueError as error:
        raise _damaged(storage, rel_path, str(error)) from error


def parquet_footer_digest(storage: Storage, rel_path: str) -> str:
    """Returns a digest of a Parquet file's footer, 32 hex digits.

    The footer names every page's place and size and the columns' statistics: a file with the same one was almost
    always copied or touched, not rewritten. Not seen are values of the same size that keep their places' statistics, in
    columns without compression: two rows that change places, or a picture's bytes. Costs one or two reads at the
    file's end.

    Raises:
        ShardError: the file is no complete Parquet file.
        StorageError: it could not be read.
    """
    return hashlib.blake2b(_read_parquet_footer(storage, rel_path), digest_size=16).hexdigest()


def _read_parquet_footer(storage: Storage, rel_path: str) -> bytes:
    """Returns the footer with its length and magic, which is enough for Arrow to parse it."""
    with storage.open_input(rel_path) as file:
        size = file.size()
        if size < _SMALLEST_FILE_BYTES:
            raise _damaged(storage, rel_path, f"{size} bytes")
        tail = _read_end(file, size, _TAIL_BYTES)
        if tail[-4:] != b"PAR1":
            what = "its footer is encrypted" if tail[-4:] == b"PARE" else "no Parquet magic bytes at its end"
            raise _damaged(storage, rel_path, what)
        length = int.from_bytes(tail[-8:-4], "little") + _END_BYTES
        if length > size - 4:
            raise _damaged(storage, rel_path, f"a footer of {length} bytes in a file of {size}")
        return tail[-length:] if length <= len(tail) else _read_end(file, size, length)


def _read_end(file: pa.NativeFile, size: int, length: int) -> bytes:
    length = min(size, length)
    file.seek(size - length)
    return file.read(length)


def _damaged(storage: Storage, rel_path: str, what: str) -> ShardError:
    return ShardError(f"{storage.uri(rel_path)}: not a readable Parquet file: {what}", "a complete Parquet file")


def _input_version(held: Mapping[str, Any]) -> InputVersion:
    known = {field.name for field in fields(InputVersion)}  # a later version may say more
    return InputVersion(**{name: value for name, value in held.items() if name in known})


def _replaced_together(held: Mapping[str, Any]) -> ReplacedTogether:
    rows = {name: tuple((int(first), int(length)) for first, length in runs) for name, runs in held["rows"].items()}
    return ReplacedTogether(str(held["id"]), dict(held["was"]), rows)


def _to_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
