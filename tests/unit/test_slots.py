import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.queues.slots import Slot, SlotFolder, UnsafeSlotFolder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "slots"


def take_all(folder: SlotFolder) -> list[Slot]:
    taken = []
    while slot := folder.take():
        taken.append(slot)
    return taken


def test_no_more_slots_than_the_limit_over_all_processes(folder: Path) -> None:
    one, other = SlotFolder(folder, 3), SlotFolder(folder, 3)
    held = [one.take(), other.take(), one.take()]
    assert all(held)
    assert one.take() is None
    assert other.take() is None


def test_a_released_slot_is_free_for_others(folder: Path) -> None:
    slots = SlotFolder(folder, 1)
    first = slots.take()
    assert first is not None
    first.release()
    assert slots.take() is not None


def test_a_released_slot_is_regained_only_if_nobody_took_it(folder: Path) -> None:
    slots = SlotFolder(folder, 1)
    first = slots.take()
    assert first is not None
    first.release()
    assert first.regain()
    first.release()
    assert slots.take() is not None
    assert not first.regain()


def test_a_slot_lives_as_long_as_the_process_that_inherited_it(folder: Path) -> None:
    slots = SlotFolder(folder, 1)
    slot = slots.take()
    assert slot is not None
    heir = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[slot.descriptor], close_fds=True
    )
    slot.close()
    assert slots.take() is None
    heir.kill()
    heir.communicate()
    again = slots.take()
    assert again is not None


def test_a_folder_open_to_others_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UnsafeSlotFolder):
        SlotFolder(folder, 1).take()


def test_a_link_in_place_of_a_slot_is_not_followed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir(mode=0o700)
    (tmp_path / "precious").write_text("kept", encoding="utf-8")
    (folder / "slot-0").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        SlotFolder(folder, 1).take()


@pytest.fixture(autouse=True)
def close_slots(folder: Path) -> object:
    """Slots are plain descriptors; the test process must not carry them on."""
    yield
    for entry in Path("/proc/self/fd").iterdir():
        if entry.exists() and str(folder) in str(entry.readlink()):
            os.close(int(entry.name))
