import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from turno.queues.exec.slots import Slot, SlotFolder, UnsafeSlotFolder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "slots"


def take_all(folder: SlotFolder) -> list[Slot]:
    taken = []
    while slot := folder.take("suc0001"):
        taken.append(slot)
    return taken


def test_no_more_slots_than_the_limit_over_all_processes(folder: Path) -> None:
    slots, other = SlotFolder(folder, 3), SlotFolder(folder, 3)
    taken = [slots.take("suc0001"), other.take("suc0001"), slots.take("suc0001")]
    assert all(taken)
    assert slots.take("suc0001") is None
    assert other.take("suc0001") is None


def test_released_slot_is_free(folder: Path) -> None:
    slots = SlotFolder(folder, 1)
    first = slots.take("suc0001")
    assert first is not None
    first.release()
    assert slots.take("suc0001") is not None


def test_released_slot_is_regained_only_if_still_free(folder: Path) -> None:
    slots = SlotFolder(folder, 1)
    first = slots.take("suc0001")
    assert first is not None
    first.release()
    assert first.regain()
    first.release()
    assert slots.take("suc0001") is not None
    assert not first.regain()


def test_a_slot_lives_as_long_as_the_process_that_inherited_it(folder: Path) -> None:
    slots = SlotFolder(folder, 1)
    slot = slots.take("suc0001")
    assert slot is not None
    heir = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[slot.descriptor], close_fds=True
    )
    slot.close()
    assert slots.take("suc0001") is None
    heir.kill()
    heir.communicate()
    again = slots.take("suc0001")
    assert again is not None


def test_reserve_is_for_tenants_without_a_place(folder: Path) -> None:
    slots = SlotFolder(folder, 2, reserve=1)
    assert [slots.take("suc0001") is not None for _ in range(3)] == [True, True, False]
    assert [slots.take("suc0002") is not None for _ in range(2)] == [True, False]
    assert slots.take("suc0003") is None


def test_a_larger_reserve_has_a_place_for_each(folder: Path) -> None:
    slots = SlotFolder(folder, 1, reserve=2)
    tenants = ("suc0001", "suc0001", "suc0002", "suc0002", "suc0003", "suc0004")
    assert [slots.take(tenant) is not None for tenant in tenants] == [True, False, True, False, True, False]


def test_a_place_is_its_new_tenant_s_once_it_is_used_for_that(folder: Path) -> None:
    slots = SlotFolder(folder, 1, reserve=1)
    slot = slots.take("suc0001")
    assert slot is not None
    slot.use_for("suc0002")
    assert slots.take("suc0002") is None
    assert slots.take("suc0001") is not None


def test_place_knows_its_peers_and_its_reserve(folder: Path) -> None:
    slots = SlotFolder(folder, 2, reserve=1)
    ordinary, _, reserve = (slots.take(tenant) for tenant in ("suc0001", "suc0002", "suc0003"))
    assert ordinary is not None
    assert reserve is not None
    assert (ordinary.ordinary(), reserve.ordinary()) == (True, False)
    assert (ordinary.others(), reserve.others()) == (
        frozenset({"suc0002", "suc0003"}),
        frozenset({"suc0001", "suc0002"}),
    )


def test_reserve_owner_moves_to_a_free_ordinary_place(folder: Path) -> None:
    slots = SlotFolder(folder, 1, reserve=1)
    ordinary, handed = slots.take("suc0001"), slots.take("suc0002")
    assert ordinary is not None
    assert handed is not None
    reserve = Slot.inherited(handed.handed)
    ordinary.release()
    assert reserve.ordinary()
    assert not ordinary.regain()
    reserve.use_for("suc0003")
    assert slots.take("suc0003") is None
    assert slots.take("suc0002") is not None
    reserve.release()
    assert reserve.regain()


def test_place_left_in_reserve_is_regained_outside_of_it(folder: Path) -> None:
    slots = SlotFolder(folder, 1, reserve=1)
    ordinary, reserve = slots.take("suc0001"), slots.take("suc0002")
    assert ordinary is not None
    assert reserve is not None
    reserve.release()
    ordinary.release()
    assert reserve.regain()
    assert reserve.ordinary()
    assert not ordinary.regain()


def test_shared_folder_is_refused(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(UnsafeSlotFolder):
        SlotFolder(folder, 1).take("suc0001")


def test_a_link_in_place_of_a_slot_is_not_followed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir(mode=0o700)
    (tmp_path / "precious").write_text("kept", encoding="utf-8")
    (folder / "slot-0").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        SlotFolder(folder, 1).take("suc0001")


@pytest.fixture(autouse=True)
def close_slots(folder: Path) -> object:
    """Slots are plain descriptors; the test process must not carry them on."""
    yield
    for entry in Path("/proc/self/fd").iterdir():
        if entry.exists() and str(folder) in str(entry.readlink()):
            os.close(int(entry.name))


def test_a_slot_knows_when_its_installation_was_removed(folder: Path) -> None:
    slot = SlotFolder(folder, 1).take("suc0001")
    assert slot is not None
    assert not slot.removed()
    shutil.rmtree(folder)
    assert slot.removed()
