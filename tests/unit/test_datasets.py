"""Recipes, transfers over HTTP on this machine, and the synthetic families."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from support.data import paper_data
from support.server import Site, serving

from dpkv.errors import DatasetError, ParameterError
from dpkv.paper.datasets import families, recipes
from dpkv.paper.datasets import fetch as fetching
from dpkv.paper.datasets.fetch import fetch
from dpkv.paper.datasets.recipes import (
    PAPER_TABLES,
    Recipe,
    find_table,
    load_checked_values,
    load_paper_table,
    parse_values,
    recipe_of,
    table_bytes,
    values_digest,
)
from dpkv.paper.datasets.synthetic_tables import FAMILIES, Wish, csv_text, make_table

VALUES = np.random.default_rng(5).normal(size=(3000, 2)).round(4)
TEXT = "".join(f"{x!r}   {y!r}\n" for x, y in VALUES.tolist()).encode()
RECIPE = Recipe(
    name="little",
    title="Little",
    what="a table of this test",
    page="http://example.org/",
    url="",
    columns=("x", "y"),
    rows=3000,
    distinct=False,
    sha256=hashlib.sha256(table_bytes(VALUES)).hexdigest(),
    values_sha256=values_digest(VALUES),
    as_in_the_paper="not at all",
)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


# -- recipes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAPER_TABLES)
def test_a_recipe_is_complete(name: str) -> None:
    recipe = recipe_of(name)
    assert recipe.page.startswith("http") and recipe.rows > 0 and recipe.columns
    assert len(recipe.sha256) == len(recipe.values_sha256) == 64


@pytest.mark.parametrize("name", PAPER_TABLES)
def test_the_papers_tables_are_what_the_recipes_say(name: str) -> None:
    recipe = recipe_of(name)
    path = paper_data(recipe.file)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == recipe.sha256
    assert load_checked_values(recipe, path).shape == (recipe.rows, len(recipe.columns))


def test_an_unknown_table_is_refused_with_those_there_are() -> None:
    with pytest.raises(ParameterError, match="europediff"):
        recipe_of("nonsense")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
@pytest.mark.parametrize("separator", [b"   ", b",", b" , "])
def test_numbers_are_read_whatever_they_are_packed_in(pack, separator: bytes) -> None:
    text = TEXT.replace(b"   ", separator)
    np.testing.assert_array_equal(parse_values(RECIPE, pack(text)), VALUES)


def test_columns_beyond_the_recipes_are_dropped_and_repeats_where_it_says_so() -> None:
    text = b"3 1 7\n1 2 7\n1 2 9\n"
    assert parse_values(RECIPE, text).tolist() == [[3, 1], [1, 2], [1, 2]]
    distinct = replace(RECIPE, distinct=True)
    assert parse_values(distinct, text).tolist() == [[1, 2], [3, 1]]


@pytest.mark.parametrize(
    "junk", [b"", b"<html>no such file</html>", b"\x1f\x8bnot gzip", b"1 2\n3\n"]
)
def test_what_is_no_table_of_numbers_is_refused(junk: bytes) -> None:
    with pytest.raises(DatasetError, match="Little"):
        parse_values(RECIPE, junk)


def test_the_canonical_file_holds_the_numbers_exactly() -> None:
    values = np.array([[0.1, -2.0], [1e-300, 123456789.0]])
    np.testing.assert_array_equal(parse_values(RECIPE, table_bytes(values)), values)
    assert table_bytes(values) == table_bytes(values)


def test_the_given_folder_is_looked_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DPKV_DATA", raising=False)
    assert find_table(RECIPE) is None
    kept = tmp_path / "home" / "dpkv" / RECIPE.file
    kept.parent.mkdir(parents=True)
    kept.write_bytes(table_bytes(VALUES))
    assert find_table(RECIPE) == kept
    given = tmp_path / "given" / RECIPE.file
    given.parent.mkdir()
    given.write_bytes(table_bytes(VALUES))
    monkeypatch.setenv("DPKV_DATA", str(given.parent))
    assert find_table(RECIPE) == given


def test_a_table_that_is_not_here_is_none_and_a_false_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("DPKV_DATA", str(tmp_path))
    assert load_paper_table("europediff") is None
    (tmp_path / "europediff.csv.gz").write_bytes(table_bytes(VALUES))
    with pytest.raises(DatasetError, match="EuropeDiff"):
        load_paper_table("europediff")


# -- transfers ------------------------------------------------------------------------------------


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_table_is_fetched_and_kept_in_canonical_form(tmp_path: Path) -> None:
    shares: list[float] = []
    with serving(Site(TEXT)) as url:
        path = fetch(RECIPE, tmp_path / "new", url=url, progress=shares.append)
    assert path.read_bytes() == table_bytes(VALUES)
    assert shares and shares == sorted(shares) and shares[-1] == 1.0
    assert not hidden(path.parent)


def test_the_very_file_of_the_recipe_is_kept_as_it_is(tmp_path: Path) -> None:
    site = Site(table_bytes(VALUES))
    with serving(site) as url:
        assert fetch(RECIPE, tmp_path, url=url).read_bytes() == site.contents


@pytest.mark.parametrize("etag", ['"1"', None])
def test_what_was_cut_short_goes_on_where_it_stopped(tmp_path: Path, etag: str | None) -> None:
    site = Site(TEXT, cut_after=20_000, etag=etag)
    with serving(site) as url:
        with pytest.raises(DatasetError, match="again to go on"):
            fetch(RECIPE, tmp_path, url=url)
        assert not (tmp_path / RECIPE.file).exists()
        path = fetch(RECIPE, tmp_path, url=url)
    assert path.read_bytes() == table_bytes(VALUES)
    # without a version nobody knows that it is the same file: it is fetched from the beginning
    assert site.asked == [None, "bytes=20000-" if etag else None]


def test_a_file_that_has_changed_meanwhile_is_fetched_anew(tmp_path: Path) -> None:
    site = Site(b"9" * 20_000 + TEXT, cut_after=20_000)
    with serving(site) as url:
        with pytest.raises(DatasetError):
            fetch(RECIPE, tmp_path, url=url)
        site.contents, site.etag = TEXT, '"2"'
        assert fetch(RECIPE, tmp_path, url=url).read_bytes() == table_bytes(VALUES)


def test_a_part_of_another_address_is_not_continued(tmp_path: Path) -> None:
    with (
        serving(Site(b"8" * 5000, cut_after=4000)) as other,
        pytest.raises(DatasetError, match="cut short"),
    ):
        fetch(RECIPE, tmp_path, url=other)
    site = Site(TEXT)
    with serving(site) as url:
        assert fetch(RECIPE, tmp_path, url=url).is_file()
    assert site.asked == [None]


def test_a_server_without_ranges_sends_all_again(tmp_path: Path) -> None:
    site = Site(TEXT, ranges=False, cut_after=20_000)
    with serving(site) as url:
        with pytest.raises(DatasetError):
            fetch(RECIPE, tmp_path, url=url)
        assert fetch(RECIPE, tmp_path, url=url).read_bytes() == table_bytes(VALUES)


def test_a_part_that_is_whole_already_is_fetched_anew(tmp_path: Path) -> None:
    site = Site(TEXT)
    (tmp_path / f".{RECIPE.file}.part").write_bytes(TEXT)
    with serving(site) as url:
        facts = f'{{"url": "{url}", "version": "\\"1\\""}}'
        (tmp_path / f".{RECIPE.file}.part.json").write_text(facts, encoding="utf-8")
        assert fetch(RECIPE, tmp_path, url=url).is_file()
    assert site.asked == [f"bytes={len(TEXT)}-", None]


def test_a_server_that_continues_elsewhere_is_refused(tmp_path: Path) -> None:
    site = Site(TEXT, cut_after=20_000)
    with serving(site) as url:
        with pytest.raises(DatasetError):
            fetch(RECIPE, tmp_path, url=url)
        site.wrong_start = True
        with pytest.raises(DatasetError, match="wrong place"):
            fetch(RECIPE, tmp_path, url=url)
        assert not hidden(tmp_path)


def test_a_length_that_is_not_told_is_no_obstacle(tmp_path: Path) -> None:
    with serving(Site(TEXT, tell_length=False)) as url:
        assert fetch(RECIPE, tmp_path, url=url).is_file()


@pytest.mark.parametrize("contents", [TEXT.replace(b"1", b"2", 1), b"<html>moved</html>"])
def test_a_wrong_checksum_keeps_nothing(tmp_path: Path, contents: bytes) -> None:
    with serving(Site(contents)) as url, pytest.raises(DatasetError, match="Little"):
        fetch(RECIPE, tmp_path, url=url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", ["many", "-5", "1e3", "\N{SUPERSCRIPT TWO}", "9" * 5000])
def test_a_bad_length_is_one_sentence(tmp_path: Path, length: str) -> None:
    with (
        serving(Site(TEXT, length=length)) as url,
        pytest.raises(DatasetError, match="Content-Length that is no number"),
    ):
        fetch(RECIPE, tmp_path, url=url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("tell_length", [True, False])
def test_no_more_is_taken_than_the_table_can_be(tmp_path: Path, tell_length: bool) -> None:
    site = Site(b"1 2\n" * (1 << 18), tell_length=tell_length)
    with serving(site) as url, pytest.raises(DatasetError, match=r"sends more than \d+ bytes"):
        fetch(RECIPE, tmp_path, url=url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_nothing_is_unpacked_before_its_checksum(
    pack: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right numbers in another file, too: only their unpacking would tell."""
    monkeypatch.setattr(recipes, "_unpack", None)
    with serving(Site(pack(TEXT))) as url, pytest.raises(DatasetError, match="not unpacked"):
        fetch(RECIPE, tmp_path, url=url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_bomb_is_unpacked_no_further_than_the_table_can_be(
    pack: Callable[[bytes], bytes],
) -> None:
    bomb = pack(b"1 2\n" * (1 << 22))  # sixteen megabytes
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError, match="cannot: it is another one"):
            parse_values(RECIPE, bomb)
        assert tracemalloc.get_traced_memory()[1] < 10 * RECIPE.most_bytes
    finally:
        tracemalloc.stop()


def test_a_damaged_file_is_one_sentence() -> None:
    packed = bytearray(gzip.compress(TEXT, mtime=0))
    packed[20:60] = bytes(40)
    with pytest.raises(DatasetError, match="does not hold a table of numbers"):
        parse_values(RECIPE, bytes(packed))


@pytest.mark.parametrize("scheme", ["https", "ftp", "file"])
def test_a_redirect_to_another_scheme_is_not_followed(tmp_path: Path, scheme: str) -> None:
    with (
        serving(Site(TEXT, redirect=f"{scheme}://127.0.0.1:9/table.txt")) as url,
        pytest.raises(DatasetError, match=r"redirects to another scheme|answers 302"),
    ):
        fetch(RECIPE, tmp_path, url=url)


def test_a_redirect_of_the_same_scheme_is_followed(tmp_path: Path) -> None:
    with serving(Site(TEXT)) as there, serving(Site(b"", redirect=there)) as url:
        assert fetch(RECIPE, tmp_path, url=url).read_bytes() == table_bytes(VALUES)


def test_a_server_that_never_ends_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_MOST_SECONDS", 0.5)
    with (
        serving(Site(TEXT, stall=True)) as url,
        pytest.raises(DatasetError, match="took more than"),
    ):
        fetch(RECIPE, tmp_path, url=url)
    assert not (tmp_path / RECIPE.file).exists()


def test_the_recipes_own_addresses_are_encrypted() -> None:
    known = [recipe_of(name) for name in PAPER_TABLES]
    assert {urlsplit(r.url).scheme for r in known if r.url} == {"https"}
    assert {urlsplit(r.page).scheme for r in known} == {"https"}


def test_an_error_of_the_server_is_told(tmp_path: Path) -> None:
    with serving(Site(TEXT, status=404)) as url, pytest.raises(DatasetError, match="404"):
        fetch(RECIPE, tmp_path, url=url)


def test_offline_is_one_clear_sentence(tmp_path: Path) -> None:
    with serving(Site(TEXT)) as url:
        pass  # nobody listens there any more
    with pytest.raises(DatasetError, match=r"offline.*DPKV_DATA"):
        fetch(RECIPE, tmp_path, url=url)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.org/x", "table.txt", "http://[::1"]
)
def test_only_web_addresses_are_fetched(tmp_path: Path, url: str) -> None:
    with pytest.raises(DatasetError, match="http"):
        fetch(RECIPE, tmp_path, url=url)


def test_without_an_address_the_page_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"example\.org"):
        fetch(RECIPE, tmp_path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with serving(Site(TEXT)) as url, pytest.raises(DatasetError, match="cannot be written"):
        fetch(RECIPE, tmp_path / "file", url=url)


# -- families -------------------------------------------------------------------------------------


def test_boxes_fill_the_table_and_stay_in_the_cube() -> None:
    made = families.hyperrectangles(5000, 4, np.random.default_rng(0), largest_cluster=300)
    assert made.points.shape == (5000, 4)
    assert made.points.min() >= 0.0 and made.points.max() <= 1.0
    sizes = np.bincount(made.labels)
    assert sizes.min() >= 1 and sizes.max() <= 300
    for label in range(len(sizes)):
        assert np.ptp(made.points[made.labels == label], axis=0).max() <= families.LONGEST_EDGE


def test_records_move_to_other_peers_and_stay_what_they_are() -> None:
    held = families.Labelled(np.arange(60_000.0).reshape(-1, 1), np.repeat(np.arange(6), 10_000))
    after = families.move_records(held, 0.3, np.random.default_rng(1))
    assert after.points is held.points
    gone = after.labels != held.labels
    assert abs(gone.mean() - 0.3) < 0.012  # 6 standard deviations
    for start in range(6):
        arrived = np.bincount(after.labels[(held.labels == start) & gone], minlength=6)
        assert arrived[start] == 0 and np.delete(arrived, start).min() > 400
    everybody = families.move_records(held, 1.0, np.random.default_rng(1))
    assert (everybody.labels != held.labels).all()
    assert (families.move_records(held, 0.0, np.random.default_rng(1)).labels == held.labels).all()


def test_a_peer_without_records_is_gone() -> None:
    held = families.Labelled(np.zeros((3, 1)), np.array([0, 1, 2]))
    for seed in range(20):
        labels = families.move_records(held, 0.5, np.random.default_rng(seed)).labels
        assert sorted(set(labels)) == list(range(len(set(labels))))


def test_a_lonely_peer_keeps_its_records() -> None:
    held = families.Labelled(np.zeros((5, 1)), np.zeros(5, np.int64))
    assert (families.move_records(held, 1.0, np.random.default_rng(0)).labels == 0).all()


def test_the_ball_is_uniform_by_radius() -> None:
    points = families.ball(20_000, 5, np.random.default_rng(2))
    shares = np.linalg.norm(points, axis=1) ** 5
    assert shares.max() <= 1.0
    assert abs(shares.mean() - 0.5) < 6 * np.sqrt(1 / 12 / 20_000)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_makes_the_same_table_again(name: str) -> None:
    wish = Wish(seed=3, rows=50)
    first, second = (csv_text(make_table(name, wish)) for _ in range(2))
    assert first == second
    assert len(first.splitlines()) == 51
    assert csv_text(make_table(name, replace(wish, seed=4))) != first


def test_moving_leaves_the_records_alone() -> None:
    still, moved = (make_table("peers", Wish(seed=1, rows=900, move=p)) for p in (0.0, 0.5))
    np.testing.assert_array_equal(still.values, moved.values)
    assert still.labels is not None and (still.labels != moved.labels).any()


def test_a_family_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ParameterError, match="--move"):
        make_table("ball", Wish(move=0.1))
    with pytest.raises(ParameterError, match="hyperrectangles"):
        make_table("nonsense", Wish())


@pytest.mark.parametrize(
    ("name", "wish"),
    [
        ("ball", Wish(rows=0)),
        ("ball", Wish(columns=0)),
        ("mixture", Wish(clusters=0)),
        ("peers", Wish(move=1.5)),
        ("peers", Wish(move=-0.1)),
        ("hyperrectangles", Wish(edge=0.0)),
        ("hyperrectangles", Wish(edge=1.5)),
        ("ball", Wish(seed=-1)),
        ("clinic_patients", Wish(seed=-1)),
    ],
)
def test_bad_wishes_are_refused(name: str, wish: Wish) -> None:
    with pytest.raises(ParameterError):
        make_table(name, wish)
