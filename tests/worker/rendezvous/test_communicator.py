from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.contract import failure_file
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.rendezvous.communicator import Communicator, SingleProcess, find_communicator
from scalecurve_worker.rendezvous.tcp import CommunicatorError, FolderCommunicator
from tests.waiting import PATIENCE_S, eventually


def in_ranks(folder: Path, world: int, work: Callable[[Communicator], Any]) -> list[Any]:
    """Run ``work`` in every rank; a folder does not mind that they are threads."""
    with ThreadPoolExecutor(world) as pool:
        return list(
            pool.map(lambda rank: work(FolderCommunicator(folder, rank, world, patience_s=PATIENCE_S)), range(world))
        )


def test_one_process_is_alone() -> None:
    alone = find_communicator(RankIdentity(0, 1, 0), None)
    assert isinstance(alone, SingleProcess)
    assert alone.all_gather({"a": 1}) == [{"a": 1}]


def test_ranks_meet_in_a_folder(tmp_path: Path) -> None:
    def work(ranks: Communicator) -> list[Any]:
        found = []
        for number in range(20):
            ranks.barrier()
            found.append(ranks.all_gather([ranks.rank, number]))
        return found

    gathered = in_ranks(tmp_path, 3, work)
    assert gathered == [[[[rank, number] for rank in range(3)] for number in range(20)]] * 3


def test_bytes_are_gathered_on_rank_0(tmp_path: Path) -> None:
    def work(ranks: Communicator) -> list[list[bytes]]:
        return [ranks.gather(bytes([ranks.rank, number]) * 1000) for number in range(5)]

    first, second, third = in_ranks(tmp_path, 3, work)
    assert first == [[bytes([rank, number]) * 1000 for rank in range(3)] for number in range(5)]
    assert second == third == [[]] * 5


def test_files_of_an_earlier_run_are_no_ranks(tmp_path: Path) -> None:
    assert in_ranks(tmp_path, 2, lambda ranks: ranks.all_gather("old")) == [["old", "old"]] * 2
    assert in_ranks(tmp_path, 2, lambda ranks: ranks.all_gather("new")) == [["new", "new"]] * 2


def test_no_rank_passes_a_barrier_before_the_last(tmp_path: Path) -> None:
    def work(ranks: Communicator) -> tuple[float, float]:
        time.sleep(0.05 * ranks.rank)
        came = time.monotonic()
        ranks.barrier()
        return came, time.monotonic()

    times = in_ranks(tmp_path, 3, work)
    assert max(came for came, _ in times) <= min(went for _, went in times)


def test_a_rank_that_does_not_come_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommunicatorError, match=r"waited 0 s for rank \[1\]"):
        FolderCommunicator(tmp_path, 0, 2, patience_s=0.05)


def test_a_rank_that_has_failed_is_not_waited_for(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(FolderCommunicator, tmp_path, 0, 2, patience_s=PATIENCE_S)

        def ended() -> bool:
            # Again and again: a file that is older than rank 0 is an earlier run's.
            (tmp_path / failure_file(1)).write_text("{}")
            return waiting.done()

        eventually(ended, "the end of rank 0")
        with pytest.raises(CommunicatorError, match="rank 1 has failed"):
            waiting.result()


def test_ranks_with_nothing_to_meet_through() -> None:
    with pytest.raises(CommunicatorError, match="SCALECURVE_OUT"):
        find_communicator(RankIdentity(1, 2, 1), None)
