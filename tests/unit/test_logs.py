import json
import logging

from turno.logs import JsonFormatter


def line(message: str, *arguments: object, **extra: object) -> dict[str, object]:
    record = logging.LogRecord("turno", logging.INFO, __file__, 1, message, arguments, None)
    vars(record).update(extra)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    assert "\x1b" not in text
    read: dict[str, object] = json.loads(text)
    return read


def test_a_line_carries_the_ids_it_is_about() -> None:
    written = line("claimed %s", "it", tenant="suc0001", job_id="1", attempt=2)
    assert written["message"] == "claimed it"
    assert (written["tenant"], written["job_id"], written["attempt"]) == ("suc0001", "1", 2)


def test_a_message_can_forge_no_second_line() -> None:
    written = line('one\r\n{"level": "CRITICAL"}\x1b[31m')
    assert written["level"] == "INFO"


def test_a_long_message_is_cut() -> None:
    assert len(str(line("x" * 100_000)["message"])) == 4096


def test_an_exception_is_kept_as_text() -> None:
    error = ValueError("no")
    record = logging.LogRecord("turno", logging.ERROR, __file__, 1, "m", (), (ValueError, error, None))
    assert "ValueError: no" in json.loads(JsonFormatter().format(record))["error"]
