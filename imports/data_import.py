"""Import customers, products or orders from an uploaded file: a wrong line does not stop the import."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from uuid import UUID

from imports.cells import Mark
from imports.refusals import FileRefused, LineRefused, WrongLine, refusal
from imports.storing import store
from imports.table_file import TableFile, Window
from imports.words import TABLE_NAMES, WORDS
from turno import JobContext, JobHandler, PermanentFailure, RetryPolicy

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
TOGETHER = 500  # records a transaction: some tens of milliseconds
MARKS: dict[str, Mark] = {"comma": ",", "point": "."}
ENCODINGS = {"utf-8": "utf-8-sig", "utf-16": "utf-16", "windows-1252": "cp1252"}


@dataclass(frozen=True, slots=True)
class DataImportPayload:
    """The uploaded file and its format; `auto` is detected from the file. A dry run keeps nothing."""

    file_id: UUID
    table: Literal["customers", "products", "orders"]
    dry_run: bool = False
    separator: Literal["auto", "comma", "semicolon", "tab", "bar"] = "auto"
    decimal_mark: Literal["auto", "comma", "point"] = "auto"
    encoding: Literal["auto", "utf-8", "utf-16", "windows-1252"] = "auto"
    language: Literal["es", "en"] = "es"


class DataImport(JobHandler[DataImportPayload]):
    """Each line, or each order with its lines, is an item of the ledger: written once, or refused with its reason."""

    type = "data_import"
    queue = "cold"
    retry = RetryPolicy(max_attempts=4)
    timeout = 1800.0
    memory_mb = 400
    user_errors = (LineRefused,)
    lasting_errors = (FileRefused, WrongLine)
    words: ClassVar = WORDS

    @classmethod
    def summary(cls, payload: DataImportPayload, language: str) -> str:
        """Return the table of the import, and whether it is a dry run."""
        name = TABLE_NAMES["es" if language == "es" else "en"][payload.table]
        if not payload.dry_run:
            return name
        return f"{name}, {'de prueba: no se guarda nada' if language == 'es' else 'dry run: nothing is kept'}"

    def handle(self, job: JobContext, payload: DataImportPayload) -> dict[str, Any]:
        """Survey the file, then write its records in chunks; a later attempt reads on where the ledger ends."""
        with job.files.open(payload.file_id) as (_, stream):
            try:
                file = TableFile(
                    stream,
                    payload.table,
                    separator=SEPARATORS.get(payload.separator),
                    encoding=ENCODINGS.get(payload.encoding),
                    mark=MARKS.get(payload.decimal_mark),
                )
                return self._imported(job, payload, file)
            except FileRefused as refused:
                raise PermanentFailure(refused.message(payload.language)) from refused
            except MemoryError:  # another attempt would exhaust it again
                exhausted = FileRefused("memory", most=self.memory_mb)
                raise PermanentFailure(exhausted.message(payload.language)) from exhausted

    def _imported(self, job: JobContext, payload: DataImportPayload, file: TableFile) -> dict[str, Any]:
        window = Window(file.read())
        batch = job.each(file.records)
        for group in batch.groups(TOGETHER):
            with group as items:
                records = window.take([item.value for item in items])
                with job.connection.transaction(force_rollback=payload.dry_run):
                    refused = store(
                        job.connection, payload.table, [record for record in records if not record.problems]
                    )
                for item, record in zip(items, records, strict=True):
                    if problems := record.problems or refused.get(record.line):
                        item.fail(refusal(problems, payload.language))
        counts = batch.counts
        return {
            "table": payload.table,
            "dry_run": payload.dry_run,
            "lines": file.line_count,
            "imported": counts.done,
            "failed": counts.failed,
            "skipped": counts.skipped,
        } | file.about
