from turno.http_server.web_server import WebServer, gunicorn_settings
from turno.settings import Settings


def test_streams_leave_room_for_requests() -> None:
    told = gunicorn_settings(Settings(web_threads=1100))
    assert told["worker_connections"] >= 1100 + 500
    assert gunicorn_settings(Settings())["preload_app"] is False


def test_gunicorn_knows_every_setting_that_it_is_told() -> None:
    server = WebServer(Settings(web_bind="127.0.0.1:9", web_workers=3))
    assert (server.cfg.workers, server.cfg.address) == (3, [("127.0.0.1", 9)])
    assert server.cfg.accesslog is None
