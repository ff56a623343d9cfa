"""Notes and archives of sweeps, and a dashboard that writes nothing, in a real headless Chromium."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from in_chromium import IN_CHROMIUM, find, names_in_table, texts, tick, traces, wait

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    root, make_run = shared_runs
    now = time.time() - 1000.0
    make_run("alone", [{"charts/mean_return": 90.0}], begun=now)
    make_run("sweep", facts={"sweep": {"grid": {"algorithm.learning-rate": ["0.1", "0.2"]}, "options": {}}})
    for number, (rate, value) in enumerate((("0.1", 500.0), ("0.1", 20.0), ("0.2", 300.0), ("0.2", 310.0))):
        facts = {"member": {"index": number, "overrides": {"algorithm.learning-rate": rate, "seed": number}}}
        make_run(f"sweep/members/{number}", [{"charts/mean_return": value}], facts=facts, begun=now)
    return root


def saved(browser: Any) -> None:
    find(browser, "#note-save").click()
    wait("that it is saved", lambda: texts(browser, "#note-said") == ["saved"])


def test_a_sweep_has_notes_and_leaves_the_table_with_its_members(browser, address, root) -> None:
    before = sorted(root.rglob("*"))
    browser.get(f"{address}sweep/sweep?open=notes")
    wait("the note", lambda: find(browser, "#note").is_displayed())
    assert texts(browser, "#note-archived label") == ["leave this sweep out"]
    find(browser, "#note").send_keys("the one of the paper")
    find(browser, "#note-tags").send_keys("figure 1")
    find(browser, "#note-archived input").click()
    saved(browser)
    assert sorted(root.rglob("*")) == sorted([*before, root / ".dashboard.sqlite"])
    browser.get(f"{address}?column=note&column=tags")
    wait("no sweep", lambda: names_in_table(browser) == ["alone"])
    find(browser, "#archived input").click()
    wait("both", lambda: sorted(names_in_table(browser)) == ["alone", "sweep"])
    browser.execute_script("window.dash_ag_grid.getApi('table').ensureColumnVisible('c_tags')")
    wait("its tags", lambda: "figure 1" in texts(browser, "#table .ag-row [col-id=c_tags]"))
    assert "the one of the paper" in texts(browser, "#table .ag-row [col-id=c_note]")
    browser.get(f"{address}sweep/sweep")
    wait("the note, open since something is written", lambda: find(browser, "#note").is_displayed())
    find(browser, "#note-archived input").click()
    saved(browser)
    browser.get(f"{address}?opened=sweep")
    wait("the sweep again", lambda: len(names_in_table(browser)) == 6)


def test_a_sweep_opens_as_a_run_by_its_name_and_is_judged_by_its_best_setting(browser, address) -> None:
    browser.get(f"{address}run/sweep")
    wait("its settings", lambda: len(texts(browser, "#sweep-settings-table tbody tr")) == 2)
    wait("its title", lambda: browser.title == "sweep · best setting's return 305 · LASER")
    browser.get(address)
    wait("two rows", lambda: sorted(names_in_table(browser)) == ["alone", "sweep"])
    cells = "return Array.from(document.querySelectorAll('#table .ag-cell[col-id=return]')).map((e) => e.textContent)"
    wait("their returns", lambda: sorted(browser.execute_script(cells)) == ["305", "90"])


def test_a_read_only_dashboard_writes_nothing_whatever_is_done(browser, root, serve) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    with serve(root, read_only=True) as own:
        browser.get(own)
        wait("rows", lambda: len(names_in_table(browser)) == 2)
        tick(browser, "alone")
        wait("a curve", lambda: traces(browser, "return, last 20 episodes"))
        for page in ("run/alone?open=notes", "sweep/sweep?open=notes", "watch/alone"):
            browser.get(f"{own}{page}")
            wait("the page", lambda: find(browser, "#page h1").is_displayed())
            if "notes" in page:
                wait("the notes", lambda: find(browser, "#note").is_displayed())
                assert texts(browser, "#note-said") == ["this dashboard is read-only"]
                for control in ("#note", "#note-tags", "#note-archived input", "#note-save"):
                    assert not find(browser, control).is_enabled(), control
                browser.execute_script("const e = document.querySelector('#note-save'); e.disabled = false; e.click()")
                time.sleep(0.5)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
