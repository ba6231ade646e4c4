"""A row of a CSV file does not decide how others are read."""

import threading
import time
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest
from raw_cells import raw_cells

import privfit as pf
from privfit.data import cache, csv_text, files, stream
from privfit.data.batches import BatchSizes, read_batches
from privfit.data.csv_text import CheckedText, TextForm
from privfit.data.tables import Table, open_table
from privfit.errors import SchemaError

CANARY = "7351canary"
CELLS = (
    "", "x", '"x"', '"x,y"', '"x""y"', '"x\ny"', '""', '""""', '","', '"', f'"{CANARY}', f'{CANARY}"', '5"',
    '"x"y', ' "x"', '"x" ', '"x\n', 'x\n"', '"""', 'x"y"z', '",', '"",""', '",,', '"\n,"', ',"\n"',
)  # fmt: skip
"""What one person's cell may hold, as it is written."""

OTHERS = ('1,"a, b"', "2,plain", '3,"he said ""no"""', '4,""', '5,","', '6,"\n"', '7,"two\nlines"')


def read(path, how):
    """Return the cells of all rows, by one of the two readers of files."""
    if how == "whole":
        table = open_table(path)
        return list(zip(raw_cells(table, "a").tolist(), raw_cells(table, "b").tolist(), strict=True))
    sizes = BatchSizes(rows=3, text_bytes=64)
    parts = [Table.from_arrow(batch) for batch in read_batches(path, ("a", "b"), TextForm(), sizes)]
    rows = [zip(raw_cells(part, "a").tolist(), raw_cells(part, "b").tolist(), strict=True) for part in parts]
    return [row for part in rows for row in part]


@pytest.mark.parametrize("how", ["whole", "batches"])
def test_a_cell_changes_no_other_row(tmp_path, how):
    path, seen = tmp_path / "a.csv", 0
    for others, cell, place in product([["1,a", "2,b", '3,"c"'], *pairwise(OTHERS)], CELLS, (0, 1, 2)):
        path.write_text("a,b\n" + "\n".join(others) + "\n")
        without = read(path, how)
        path.write_text("a,b\n" + "\n".join([*others[:place], f"99,{cell}", *others[place:]]) + "\n")
        try:
            found = read(path, how)
        except SchemaError as error:
            message = str(error)
        else:
            seen, message = seen + 1, ""
            assert [found[place][0], *found[:place], *found[place + 1 :]] == ["99", *without]
        assert CANARY not in message
    assert seen > 100


@pytest.mark.parametrize("how", ["whole", "batches"])
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('"1","2"\n"3",""', [("1", "2"), ("3", None)]),
        ('1,"a\nb"\n2,""""\n', [("1", "a\nb"), ("2", '"')]),
        ("1,'a\n2,b'\n", [("1", "'a"), ("2", "b'")]),
    ],
)
def test_quotes_around_whole_cells_are_read(tmp_path, how, text, rows):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" + ('"a" , b\n' + text).encode())
    assert read(path, how) == rows


@pytest.mark.parametrize("how", ["whole", "batches"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "name", ["hours\nper week", "x\r\ny", 'the ""n"" of 5', "a, b", '""', "\n", "x" * 131_000]
)
def test_names_in_quotes_may_hold_what_cells_may(tmp_path, how, end, name):
    path = tmp_path / "a.csv"
    for header in (f'a,b,"{name}"', f'"{name}",a,b', f'a, "{name}" , "b"'):
        row = {"a": "1", "b": "2"}
        cells = [
            row.get(one, "3")
            for one in header.replace(name, "c").replace('"', "").replace(" ", "").split(",")
        ]
        path.write_bytes(f"\n \n{header}{end}{','.join(cells)}{end}".encode())
        assert read(path, how) == [("1", "2")]


@pytest.mark.parametrize("how", ["whole", "batches"])
@pytest.mark.parametrize("name", ['5"', '"5', '"5"x', 'x"5"', 'x""', '"5" "6"', '"5\nx,"y"', "\t" + '"5"'])
def test_a_header_with_other_quotes_is_refused(tmp_path, how, name):
    path = tmp_path / "a.csv"
    for header in (f"a,b,{name}", f"{name},a,b"):
        path.write_text(f"{header}\n1,2,3\n4,5,6\n")
        with pytest.raises(SchemaError, match="quotes that do not enclose whole cells"):
            read(path, how)


def test_spaces_may_separate_cells(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"a" "b c" d\n1 2 3\n')
    assert open_table(path, sep=" ").names == ("a", "b c", "d")


@pytest.mark.parametrize("how", ["whole", "batches"])
@pytest.mark.parametrize("start", ["", "\n", " \r\n\n"])
def test_blank_lines_may_follow_the_mark_of_utf_8(tmp_path, how, start):
    path = tmp_path / "a.csv"
    path.write_bytes(f"\ufeff{start}a,b\n1,2\n".encode())
    assert read(path, how) == [("1", "2")]


@pytest.mark.parametrize("how", ["whole", "batches"])
@pytest.mark.parametrize("header", ["z," * 70_000, '"' + "\n" * 140_000, "\n" * 140_000])
def test_a_header_that_is_too_long_is_told_to_be_so(tmp_path, monkeypatch, how, header):
    monkeypatch.setattr(files, "_HEADER_BYTES", 1 << 17)
    path = tmp_path / "a.csv"
    path.write_text(f"{header}a,b\n1,2\n")
    with pytest.raises(SchemaError, match=r"the header of data file .* does not end within 131072 bytes"):
        read(path, how)


@pytest.mark.parametrize("how", ["whole", "batches"])
def test_a_name_that_is_too_long_is_refused(tmp_path, how):
    path = tmp_path / "a.csv"
    path.write_text(f"a,b,{'z' * 140_000}\n1,2,3\n")
    with pytest.raises(SchemaError, match="must be CSV with a header in UTF-8") as caught:
        read(path, how)
    assert caught.value.__context__ is None


def test_a_file_without_header_may_begin_with_a_quote(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbf"1","2"\n')
    assert raw_cells(open_table(path, header=False, columns=["a", "b"]), "a").tolist() == ["1"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ('a,"b""c"\n"""",d\n', True),
        ('a,"b"c\n', False),
        ('a,b"c"\n', False),
        ('a,"b\n', False),
        ('a,"b""\n', False),
        ('a,"b"', True),
    ],
)
def test_pieces_of_any_size_are_checked_alike(size, text, sound):
    checked = CheckedText(pa.BufferReader(text.encode()), "data file 'a.csv'", start=0, sep=",")
    read_all = iter(lambda: checked.read(size), b"")
    if sound:
        assert b"".join(read_all) == b"\n" + text.encode()
        return
    with pytest.raises(SchemaError, match=r"data file 'a\.csv' has quotes that do not enclose whole cells"):
        b"".join(read_all)


@pytest.mark.parametrize("how", ["whole", "batches"])
def test_a_line_end_within_a_cell_is_read_wherever_a_block_ends(tmp_path, monkeypatch, how):
    """Arrow drops a line feed at the start of a block if the last one ended with a carriage return."""
    monkeypatch.setattr(files, "_BLOCK_BYTES", 64)
    path, cells = tmp_path / "a.csv", [(f"{k}", "x\r\ny") for k in range(50)]
    rows = "".join(f'{a},"{b}"\r\n' for a, b in cells)
    for length in range(1, 30):
        path.write_bytes(f"a,b\r\n{'9' * length},1\r\n{rows}".encode())
        assert read(path, how) == [("9" * length, "1"), *cells]


@pytest.mark.parametrize("size", [files._BLOCK_BYTES, cache._SIZES.text_bytes, stream._SIZES.text_bytes])
def test_no_block_ends_between_a_carriage_return_and_its_line_feed(size):
    row = b'"a\r\nb",1\n'
    for shift in range(len(row)):
        text = b"1" * shift + b"\n" + row * (size // len(row) + 1) + b'"a\r\n\r'
        checked = CheckedText(pa.BufferReader(text + b'"\r'), "rows", start=0, sep=",")
        blocks = list(iter(lambda: checked.read(size), b""))  # noqa: B023 -- read at once
        assert b"".join(blocks) == b"\n" + text + b'"\r'
        assert not any(block.endswith(b"\r") for block in blocks[:-1] if len(block) > 1)


def test_a_fit_of_a_file_loses_no_row_to_a_cell(tmp_path):
    """The quote of row 3 was closed by one of row 40, and the rows between them were one cell."""
    rng = np.random.default_rng(0)
    schema = {
        "x": {"type": "numeric", "lower": 0, "upper": 1},
        "note": {"type": "categorical", "levels": ["a", "b"]},
        "y": {"type": "numeric", "lower": 0, "upper": 1},
    }
    lines = [f"{x:.3f},{'ab'[k % 2]},{x:.3f}" for k, x in enumerate(rng.random(60))]
    lines[3], lines[40] = '0.5,"a,0.5', '0.5,"a",0.5'
    path = tmp_path / "a.csv"
    path.write_text("x,note,y\n" + "\n".join(lines) + "\n")
    for data in (path, pf.RowCache(path)):
        with pytest.raises(SchemaError, match="do not enclose whole cells") as caught:
            pf.ols("y ~ x + note", data, schema=schema)
        assert caught.value.__context__ is None


def test_the_end_of_the_process_waits_until_threads_let_go(tmp_path):
    """Arrow lets go of a file on a thread of its own, which aborts a process that has ended meanwhile."""
    path = tmp_path / "rows.csv"
    path.write_text("x\n" + "1\n" * 1000)
    text = CheckedText(pa.input_stream(path), "rows", start=0, sep=",")
    holder, told = [text], []
    del text

    def let_go():
        time.sleep(0.05)
        told.append(True)
        holder.clear()

    thread = threading.Thread(target=let_go)
    thread.start()
    csv_text._let_go()
    assert told
    thread.join()
    open_table(path)
    csv_text._let_go()
    assert not csv_text._read


def test_what_is_never_let_go_does_not_keep_the_process(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text("x\n1\n")
    kept = CheckedText(pa.input_stream(path), "rows", start=0, sep=",")
    monkeypatch.setattr(csv_text, "_WAITS", 3)
    csv_text._let_go()
    assert kept.readable()
