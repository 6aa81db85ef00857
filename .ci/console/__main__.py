"""The console of the real program in Chromium, on demo data: every page, the flows of an operator, and attacks.

    python .ci/console target/debug/subscription-http           # one pass: light, 1280 wide, every flow once
    python .ci/console target/debug/subscription-http --all     # every page also dark and 390 wide
    python .ci/console target/debug/subscription-http framing   # only steps with this in their name
"""

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import sync_playwright

import business
import changes
import lists
import overview
import pages
import signing
import threats
from harness import CLOCK, Demo, Server, with_provider

ALL = "--all" in sys.argv[2:]
ONLY = [word for word in sys.argv[2:] if word != "--all"]


def main():
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        # Root, as CI is, has no sandbox.
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"] if os.geteuid() == 0 else [])
        folder = Path(folder)

        def step(flow, *arguments, **more):
            if ONLY and not any(word in flow.__name__ for word in ONLY):
                return
            begun = time.monotonic()
            told = flow(browser, *arguments, **more)
            print(f"{time.monotonic() - begun:5.1f} s  {flow.__name__.replace('_', ' ')}{f' ({told})' if told else ''}", flush=True)

        demo = Demo(folder / "demo")
        closing.callback(demo.filling.kill)
        with signing.production(folder / "production") as (server, keys):
            for flow in signing.FLOWS:
                step(flow, server, keys)
        with Server(folder / "hostile", "--database", "memory:", *with_provider(folder / "hostile")) as server:
            for width in (1280, 390) if ALL else (390,):
                step(threats.texts_of_records, server, width)
            for threat in threats.THREATS:
                step(threat, server)
        with Server(folder / "empty", "--database", "memory:", *CLOCK) as server:
            step(business.an_empty_store, server)
        with demo as server:
            business.furnish(server)
            step(pages.the_first_page_has_few_files, server)
            for scheme, width in [("light", 1280), ("light", 390), ("dark", 1280), ("dark", 390)] if ALL else [("light", 1280)]:
                step(pages.every_page, server, scheme, width, all_of_them=ALL)
                step(pages.every_dialog, server, scheme, width, all_of_them=ALL)
            step(pages.a_slow_page, server)
            step(pages.under_a_path, server)
            step(pages.nonsense_after_the_hash, server)
            for flow in [*overview.FLOWS, *lists.FLOWS, *changes.FLOWS, business.the_server_stops]:
                step(flow, server)
        browser.close()
    print("the console holds")


main()
