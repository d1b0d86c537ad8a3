"""Where a trace lies: one file, a folder (also of folders by date), or a pattern such as ``logs/access.log*``; packed with gzip or zstd, or not.

Several files are one trace when they are of one form: the same columns in the same order. A folder is read without what a job leaves
beside its results (``_SUCCESS``, checksums, hidden files) and without files that hold no row.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from neuronfit.errors import BadInput

__all__ = ["HEAD", "Source", "head_of", "source_of"]

HEAD = 1 << 20
"""Bytes that are looked at."""

_MOST_FILES = 20_000

_PACKED = 10
"""How much smaller packing makes a log, about."""

_BESIDE = re.compile(r"^[._]|\.(?:crc|md5|sha256|sha1|tmp|inprogress)$|^manifest", re.IGNORECASE)

_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Source:
    """The files of a trace. ``path`` is what was asked for; ``packed`` says of each file gzip, zstd or nothing."""

    path: Path
    files: tuple[Path, ...]
    packed: tuple[str, ...]
    head: bytes
    """the first bytes of the first file, unpacked"""

    @property
    def size(self) -> int:
        """Bytes of text, about."""
        return sum(file.stat().st_size * (_PACKED if packed else 1) for file, packed in zip(self.files, self.packed))

    def sha256(self) -> str:
        """Hash of the file as it lies on disk; of several, the hash of their hashes in order."""
        digests = []
        for path in self.files:
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
            digests.append(digest.hexdigest())
        return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()

    def links(self, folder: Path) -> list[Path]:
        """Names for DuckDB: without the signs that it takes for patterns, and with the ending by which it unpacks."""
        found = []
        for number, (file, packed) in enumerate(zip(self.files, self.packed)):
            link = folder / f"source{number}{ {'gzip': '.gz', 'zstd': '.zst'}.get(packed, '') }"
            link.symlink_to(file.resolve())
            found.append(link)
        return found


def source_of(path: Path) -> Source:
    """The files behind a name. Raises :class:`~neuronfit.errors.BadInput`, one line."""
    files = _files(path)
    looked = []
    for file in files:
        head, packed = head_of(file, 4096 if looked else HEAD)
        if head.strip(b"\x00\xef\xbb\xbf \t\r\n") or len(files) == 1:
            looked.append((file, packed, head))
    if not looked:
        raise BadInput("the trace is empty", str(path), next="give a file with one line per request")
    return Source(path, tuple(file for file, _, _ in looked), tuple(packed for _, packed, _ in looked), looked[0][2])


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = [file for file in path.rglob("*") if not any(_BESIDE.search(part) for part in file.relative_to(path).parts) and file.is_file()]
    elif not path.exists() and re.search(r"[*?\[]", path.name):
        found = [file for file in path.parent.glob(path.name) if file.is_file() and not _BESIDE.search(file.name)] if path.parent.is_dir() else []
    else:
        return [path]
    if not found:
        raise BadInput("no file of a trace is there", str(path), next="neuronfit traffic FILE")
    if len(found) > _MOST_FILES:
        raise BadInput("too many files for one trace", f"{len(found):,}", allowed=f"{_MOST_FILES:,}", next="give a part of the folder")
    return sorted(found, key=_natural)


def _natural(path: Path) -> list[tuple[int, str]]:
    """``part-2`` before ``part-10``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def head_of(path: Path, most: int = HEAD) -> tuple[bytes, str]:
    """The first bytes of a file, unpacked, and how it was packed: ``gzip``, ``zstd`` or nothing. Raises :class:`~neuronfit.errors.BadInput`."""
    try:
        with open(path, "rb") as file:
            head = file.read(most)
    except OSError as error:
        raise BadInput(f"cannot read the trace ({error.strerror or error})", str(path), next="neuronfit traffic FILE") from None
    if head[:4] == _ZSTD:
        return _of_zstd(path, most), "zstd"
    if head[:2] != b"\x1f\x8b":
        return head, ""
    try:
        with gzip.open(path, "rb") as packed:
            return packed.read(most), "gzip"
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"the compressed trace is damaged ({type(error).__name__})", str(path), next="pack or copy it again") from None


def _of_zstd(path: Path, most: int) -> bytes:
    """The first lines, by DuckDB: Python has no zstd of its own before 3.14."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="neuronfit-trace-") as folder:
        link = Path(folder) / "source.zst"
        link.symlink_to(path.resolve())
        lines = (
            f"SELECT line FROM read_csv('{link}', auto_detect = false, columns = {{'line': 'VARCHAR'}}, delim = chr(1), quote = '', escape = '', "
            "header = false, strict_mode = false, ignore_errors = true, compression = 'zstd')" + (" LIMIT 2000" if most <= HEAD else "")
        )
        try:
            with duckdb.connect() as connection:
                found = connection.execute(lines).fetchall()
        except duckdb.Error as error:
            raise BadInput(f"the compressed trace is damaged ({type(error).__name__})", str(path), next="pack or copy it again") from None
    return "".join(f"{line or ''}\n" for (line,) in found).encode()[:most]
