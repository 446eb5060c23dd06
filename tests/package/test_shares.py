"""What the workers of a run have to do."""

from __future__ import annotations

from ..support.places import ROOT
from ..support.shares import divided, files_in


def test_each_file_is_in_one_share() -> None:
    files = sorted(files_in([ROOT / "tests"], ["test_*.py"]))
    assert ROOT / "tests" / "codec" / "test_ids.py" in files
    for count in (1, 2, 5):
        shares = divided(files, count)
        assert sorted(file for each in shares for file in each) == files
        sizes = [sum(file.stat().st_size for file in each) for each in shares]
        assert max(sizes) < 1.1 * min(sizes)
