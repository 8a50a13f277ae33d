import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location("make_docs", ROOT / "tools" / "make_docs.py")
assert _spec is not None and _spec.loader is not None
make_docs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make_docs)


@pytest.mark.parametrize("path", make_docs.PAGES)
def test_a_page_of_numbers_is_what_the_committed_records_make(path):
    assert (ROOT / path).read_text() == make_docs.PAGES[path]()


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))])
def test_every_link_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    missing = [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]
    assert missing == []
