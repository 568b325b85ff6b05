"""The folder in memory of a server for tests: a separate folder for each, and no folder of a killed server stays."""

from pathlib import Path

from cli.servers.folder_lock import FolderLock
from tests.quick_servers import quick_folder


def test_each_has_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    with quick_folder("one", memory=tmp_path) as first, quick_folder("two", memory=tmp_path) as second:
        assert first != second
        (first / "data").mkdir()
        parent = first.parent
    assert [left.name for left in parent.iterdir()] == []


def test_folder_of_killed_process_is_removed(tmp_path: Path) -> None:
    with quick_folder("used", memory=tmp_path) as used:
        left = used.with_name("killed")
        (left / "data").mkdir(parents=True)
        FolderLock(left).path.touch()
        with quick_folder("next", memory=tmp_path):
            assert used.is_dir()
            assert not left.exists()
            assert not FolderLock(left).path.exists()


def test_without_room_in_memory_it_is_on_the_disk(tmp_path: Path) -> None:
    with quick_folder("here", memory=tmp_path / "absent") as folder:
        assert not folder.is_relative_to(tmp_path)
