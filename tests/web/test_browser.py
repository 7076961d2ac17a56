"""The page in a real browser: nothing is asked of other machines, nothing is complained about, links lead on."""

from __future__ import annotations

import threading

import pytest
from browser import Browser, find_browser

from skerry.web.server import start

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium is installed: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def served(source):
    server, address = start(source)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield address
    server.should_exit = True
    thread.join(timeout=120)
    assert not thread.is_alive()


@pytest.fixture
def browser(tmp_path, served):
    page = Browser(tmp_path / "profile")
    page.open(served)
    yield page
    page.close()
    base = served.split("/?")[0]
    assert [url for url in page.requests if not url.startswith(base + "/")] == []
    assert page.complaints == []


def test_from_the_catalog_to_a_page_of_bytes(browser):
    assert browser.evaluate("location.search") == ""  # the token has left the address
    browser.wait("!document.querySelector('[data-load]')")
    assert browser.evaluate("[...document.querySelectorAll('tbody tr')].length") == 4
    browser.click("td a[href='/table?t=shop.orders']")
    browser.click("nav.tabs a[href^='/files']")
    browser.click("td a.path")
    browser.click("svg.map a[href*='at=1.0']")
    assert "column chunk id" in browser.evaluate("document.querySelector('.crumbs').innerText")
    browser.click("td a[href*='at=1.0.0']")
    assert "page" in browser.evaluate("document.querySelector('.crumbs li:last-child').innerText")


def test_the_keyboard_reaches_the_search_and_the_content(browser):
    browser.press("/")
    assert browser.evaluate("document.activeElement.name") == "q"
    browser.open(browser.evaluate("location.href"))
    assert browser.evaluate("document.querySelector('a').className") == "skip"
    named = "e.textContent || e.ariaLabel || e.labels?.length"
    assert browser.evaluate(f"[...document.querySelectorAll('a, input, svg')].filter(e => !({named})).length") == 0


def test_dark_is_dark(browser):
    colour = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    browser.dark(False)
    assert min(browser.evaluate(colour)) > 200
    browser.dark()
    assert max(browser.evaluate(colour)) < 60


def test_what_follows_comes_by_itself(browser, served, source, monkeypatch):
    monkeypatch.setattr("skerry.web.later._MANY_FILES", 0)
    source._remembered.clear()
    browser.open(f"{served.split('/?')[0]}/statistics?t=shop.orders")
    browser.wait("!document.querySelector('[data-load]')")
    assert browser.evaluate("[...document.querySelectorAll('tbody tr')].length") == 3
    assert not browser.evaluate("document.querySelector('.waiting')")


def test_a_part_that_does_not_come_says_so(browser):
    browser.wait("!document.querySelector('[data-load]')")
    browser.evaluate(
        "(() => { const place = document.querySelector('td'); place.dataset.load = '/assets/none'; load(place); })()"
    )
    browser.wait("document.querySelector('td').textContent === 'could not be loaded'")
    browser.complaints.clear()  # that something was not found
