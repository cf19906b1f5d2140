"""The site: built strictly and without a network, every page opened in a real browser."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from support.browser import NAMES, browser
from support.site import ROOT, SeenPage, build_site, built_once, visit_site

WIDTHS = (380, 1400)

program = browser()
needs_browser = pytest.mark.skipif(program is None, reason=f"needs a browser: {', '.join(NAMES)}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.getbasetemp()
    return built_once(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)


@pytest.fixture(scope="module")
def seen(site: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[SeenPage], list[str]]:
    assert program is not None
    names = sorted(str(page.relative_to(site)) for page in site.rglob("*.html"))
    return visit_site(program, site, names, WIDTHS, tmp_path_factory.mktemp("site"))


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    sources = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    assert {str(page.with_suffix(".html")) for page in sources} <= {
        str(page.relative_to(site)) for page in site.rglob("*.html")
    }
    assert not list(site.rglob("*.py")) and not (site / "_site").exists()


def test_commands_and_fields_are_there(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f'id="dpkv-{name}"' in commands for name in ("release", "verify", "ledger-show"))
    record = (site / "reference" / "record.html").read_text(encoding="utf-8")
    assert "centers_digest" in record and "person-is-one-row" in record
    errors = (site / "reference" / "errors.html").read_text(encoding="utf-8")
    assert "BrokenLedgerError" in errors
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<!-- fields" not in text and "<!-- codes" not in text, page
        assert "arithmatex" not in text, page


def test_nothing_of_the_site_is_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures lie in the site; links may lead out of it."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        tags = re.findall(r"<(?:script|img|link)\b[^>]*>", text)
        assert not [tag for tag in tags if re.search(r'(?:src|href)="(?:https?:)?//', tag)], page


@needs_browser
def test_every_page_can_be_read(seen: tuple[list[SeenPage], list[str]], site: Path) -> None:
    pages, console = seen
    assert len(pages) == len(WIDTHS) * len(list(site.rglob("*.html")))
    for page in pages:
        assert "dpkv" in page.title, page
        assert page.heading or page.name == "404.html", page
        assert page.scroll_width <= page.width, (page.name, page.width)
        assert page.broken == [] and page.unread == 0, page.name
        assert [x for x in page.fetched if not x.startswith(site.as_uri())] == [], page.name
    assert [line for line in console if "ERROR" in line] == []


@pytest.mark.processes
def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "dpkv").symlink_to(ROOT / "dpkv")
    shutil.copy(ROOT / "mkdocs.yml", project)
    shutil.copytree(ROOT / "docs" / "_site", project / "docs" / "_site")
    (project / "docs" / "index.md").write_text("# One\n\n[two](two.md)\n", encoding="utf-8")
    done = build_site(tmp_path / "site", "--config-file", str(project / "mkdocs.yml"))
    assert done.returncode != 0 and "two.md" in done.stdout + done.stderr
