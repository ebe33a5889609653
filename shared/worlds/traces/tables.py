"""Reads CSV files with known columns; it knows rows and numbers, not their meaning."""

import csv
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from shared.kubernetes.objects.errors import WorldError, shown

log = logging.getLogger("muster.worlds")

NO_DEFAULTS: Mapping[str, str] = {}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?")


class Row:
    """One row: typed access to its fields; errors name file, row and field."""

    def __init__(self, what: str, cells: dict[str, str]) -> None:
        """`what` is the file with the row's line number."""
        self.what, self._cells = what, cells

    def error(self, field: str, rule: str) -> WorldError:
        """Return the error for one field of this row."""
        return WorldError(self.what, field, rule)

    def text(self, field: str) -> str:
        """Return the field without surrounding blanks; it may be empty."""
        return self._cells[field].strip()

    def name(self, field: str) -> str:
        """Return a Kubernetes name; underscores, which traces use, become hyphens."""
        text = self.text(field)
        if _NAME.fullmatch(text) is None:
            raise self.error(
                field, f"{shown(text)} is not a name (lower-case letters, digits, '-', '.', '_')"
            )
        return text.replace("_", "-")

    def integer(self, field: str) -> int:
        """Return a non-negative integer."""
        text = self.text(field)
        if _INTEGER.fullmatch(text) is None:
            raise self.error(field, f"{shown(text)} is not a whole number")
        return self._not_negative(field, Fraction(int(text))).numerator

    def decimal(self, field: str) -> Fraction:
        """Return a non-negative decimal number, exactly as written."""
        text = self.text(field)
        if _DECIMAL.fullmatch(text) is None:
            raise self.error(field, f"{shown(text)} is not a number")
        return self._not_negative(field, Fraction(text))

    def decimal_or_none(self, field: str) -> Fraction | None:
        """Return the same as `decimal`; None where the field is empty."""
        return self.decimal(field) if self.text(field) else None

    def one_of(self, field: str, known: Sequence[str]) -> str:
        """Return one of the known words."""
        text = self.text(field)
        if text not in known:
            raise self.error(field, f"{shown(text)} is not one of {', '.join(known)}")
        return text

    def _not_negative(self, field: str, value: Fraction) -> Fraction:
        if value < 0:
            raise self.error(field, f"{self.text(field)} is negative")
        return value


def read_rows(
    path: Path, columns: Sequence[str], key: str, defaults: Mapping[str, str] = NO_DEFAULTS
) -> Iterator[Row]:
    """Yield the rows of a file whose header is `columns`. Columns with a default may be missing (a
    warning says what is assumed); `key` must be unique. Raises WorldError.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            yield from _rows(path, csv.reader(file, strict=True), columns, key, defaults)
    except OSError as error:
        raise WorldError(str(path), "", f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise WorldError(str(path), "", f"is not a CSV file in UTF-8: {error}") from error


def _rows(
    path: Path,
    lines: Iterator[list[str]],
    columns: Sequence[str],
    key: str,
    defaults: Mapping[str, str],
) -> Iterator[Row]:
    header = [cell.strip() for cell in next(lines, [])]
    missing = {name: value for name, value in defaults.items() if name not in header}
    columns = [name for name in columns if name not in missing]
    _check_header(path, header, columns)
    if missing:
        assumed = ", ".join(f"{name}={value or '(none)'}" for name, value in missing.items())
        log.warning("%s lacks columns; assumed for all rows: %s", path, assumed)
    seen: dict[str, int] = {}
    for number, cells in enumerate(lines, start=2):
        if not cells:
            continue
        what = f"{path} row {number}"
        if len(cells) != len(columns):
            raise WorldError(what, "", f"has {len(cells)} fields, the header {len(columns)}")
        row = Row(what, dict(zip(columns, cells, strict=True)) | missing)
        first = seen.setdefault(row.text(key), number)
        if first != number:
            raise row.error(key, f"{shown(row.text(key))} is a duplicate of row {first}")
        yield row


def _check_header(path: Path, found: list[str], columns: Sequence[str]) -> None:
    for column in found:
        if column not in columns:
            raise WorldError(f"{path} row 1", column or "(empty)", "is an unknown column")
    for column in columns:
        if column not in found:
            raise WorldError(f"{path} row 1", column, "is a missing column")
    if found != list(columns):
        raise WorldError(f"{path} row 1", found[0], f"columns must be {','.join(columns)}")
