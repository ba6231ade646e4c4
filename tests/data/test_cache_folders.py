"""Folders of a cache: which files of data it is made of, and what the system refuses."""

import errno
import os

import numpy as np
import pytest
from wards import BOUND, ENCODER, frame

import privfit as pf
from privfit.data import cache as cache_module
from privfit.errors import SchemaError


def rows(path, folder=None):
    return pf.RowCache(path, folder=folder).rows(ENCODER, norm_bound=BOUND)


def kept(folder):
    return sorted(folder.glob("*.rows"))


def test_files_behind_a_link_in_the_data_are_looked_at(tmp_path):
    """A cache was used again though they had changed: links to folders were not followed."""
    data, real, folder = tmp_path / "data", tmp_path / "real", tmp_path / "kept"
    data.mkdir()
    real.mkdir()
    frame(300).to_parquet(data / "one.parquet")
    (data / "more").symlink_to(real)
    frame(400, seed=1).to_parquet(real / "two.parquet")
    assert rows(data, folder).n_rows == 700
    frame(500, seed=2).to_parquet(real / "two.parquet")
    assert rows(data, folder).n_rows == 800
    frame(100).to_parquet(real / "three.parquet")
    assert rows(data, folder).n_rows == 900
    assert len(kept(folder)) == 3
    assert rows(data, folder).n_rows == 900
    assert len(kept(folder)) == 3


@pytest.mark.parametrize("named", [True, False])
def test_a_file_that_changes_while_it_is_read_is_refused(named, tmp_path, monkeypatch):
    path, folder = tmp_path / "rows.csv", tmp_path / "kept" if named else None
    frame(3_000).to_csv(path, index=False)
    read = cache_module.read_batches

    def disturbed(*arguments):
        for batch in read(*arguments):
            os.utime(path, ns=(1, 1))
            yield batch

    monkeypatch.setattr(cache_module, "read_batches", disturbed)
    with pytest.raises(SchemaError, match="changed while it was read"):
        rows(path, folder)
    monkeypatch.undo()
    if named:
        assert list(folder.iterdir()) == []
    assert rows(path, folder).n_rows == 3_000


def test_the_name_of_a_link_counts_as_it_may_be_a_cell(tmp_path):
    data, folder = tmp_path / "data", tmp_path / "kept"
    data.mkdir()
    (tmp_path / "real").mkdir()
    frame(300).drop(columns="ward").to_parquet(tmp_path / "real" / "a.parquet")
    wards = [str(level) for level in sorted(set(frame(300)["ward"].dropna()))][:2]
    found = []
    for ward in wards:
        (data / f"ward={ward}").symlink_to(tmp_path / "real")
        source = rows(data, folder).source(norm_bound=BOUND)
        found.append(np.concatenate([block.x for block in source.blocks()]))
        (data / f"ward={ward}").unlink()
    assert not np.array_equal(*found)
    assert len(kept(folder)) == 2


def test_what_is_not_read_of_the_data_does_not_count(tmp_path):
    data, folder = tmp_path / "data", tmp_path / "kept"
    data.mkdir()
    frame(300).to_parquet(data / "one.parquet")
    rows(data, folder)
    (data / "_SUCCESS").write_text("")
    rows(data, folder)
    assert len(kept(folder)) == 1


def test_a_folder_that_the_system_refuses_is_told_with_its_reason(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    frame(50).to_csv(path, index=False)
    with pytest.raises(SchemaError, match=r"cache: its folder cannot be used \(File name too long\)"):
        rows(path, tmp_path / ("n" * 300))
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
        with pytest.raises(SchemaError, match=r"cache: its folder cannot be used \(No such file"):
            rows(path)
    with pytest.raises(SchemaError, match=r"data file .* cannot be read \(File name too long\)"):
        rows(tmp_path / ("n" * 300), tmp_path / "kept")


@pytest.mark.parametrize("place", ["pathlib.Path.exists", "privfit.data.cache.read_facts"])
def test_a_cache_of_somebody_else_is_told_to_be_refused(tmp_path, monkeypatch, place):
    def refused(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = tmp_path / "rows.csv"
    frame(50).to_csv(path, index=False)
    monkeypatch.setattr(place, refused)
    with pytest.raises(
        SchemaError, match=r"folder cannot be used \(Permission denied\); name another folder"
    ):
        rows(path, tmp_path / "kept")


def test_data_that_cannot_be_looked_at_are_told_with_the_reason(tmp_path, monkeypatch):
    def refused(_path):
        raise PermissionError(errno.EACCES, "CANARY")

    path = tmp_path / "rows.csv"
    frame(50).to_csv(path, index=False)
    monkeypatch.setattr(cache_module, "_versions", refused)
    with pytest.raises(SchemaError, match=r"data file .* cannot be read \(Permission denied\)$"):
        rows(path)
