"""The mailer of examples/mailer, beside a server whose clock is turned: which mails come, and that each comes once, also
if the mailer is killed at any of its lines. Called by .ci/mailer."""

import asyncio
import email
import importlib.util
import logging
import multiprocessing
import os
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from email import policy
from pathlib import Path
from aiosmtpd.smtp import SMTP, AuthResult

from running import api, serving

MAILER = Path("examples/mailer/mailer.py").resolve()
LINK = "https://shop.example/subscription"
TYPES = ["payment.status_changed.failed", "subscription.trial_will_end", "subscription.renewal_upcoming",
         "subscription.status_changed.cancelled", "subscription.status_changed.expired"]
DEADLINE = 60


class Inbox:
    """A mail server: it keeps every mail, and replies to addresses that begin with these words as the word says."""

    def __init__(self):
        self.mails, self.arrived, self.busy = [], threading.Condition(), True
        self.refused = Counter()

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused"):
            self.refused["refused"] += 1
            return "550 5.1.1 no such mailbox"
        if address.startswith("busy") and self.busy:
            self.refused["busy"] += 1
            return "450 4.2.0 try later"
        if address.startswith("full"):
            self.refused["full"] += 1
            return "452 4.2.2 mailbox full"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if envelope.rcpt_tos[0].startswith("spam"):
            self.refused["spam"] += 1
            return "554 5.7.1 refused by its content"
        mail = email.message_from_bytes(envelope.content, policy=policy.default)
        with self.arrived:
            self.mails.append((envelope.rcpt_tos, mail))
            self.arrived.notify_all()
        return "250 OK"

    def wait(self, count):
        """Waits until there are so many mails, and returns the recipient and the subject of the newest."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.mails) >= count, DEADLINE), (count, self.subjects())
        return self.subjects()[count - 1]

    def subjects(self):
        return [(to[0].split("@")[0], mail["subject"]) for to, mail in self.mails]


def mail_server(inbox, **settings):
    """Starts a mail server with this inbox, and returns its host and port."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(lambda: SMTP(inbox, loop=loop, **settings), "127.0.0.1", 0))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def until(is_so, what):
    """Waits for an effect that nothing announces."""
    deadline = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Business:
    def __init__(self, base):
        self.base = base
        plan = {"price": "19.90", "currency": "EUR", "billing_cycle": "monthly"}
        self.pro = self.post("/subscription-plans", plan | {"name": "Pro ✓ <b>", "slug": "pro"})["id"]
        self.trial = self.post("/subscription-plans", plan | {"name": "Team", "slug": "team", "trial_period": "P14D"})["id"]

    def post(self, path, body=None):
        return api(self.base, "POST", path, body)

    def subscribe(self, address, plan):
        user = self.post("/authentication/sign-up", {"access_token": "any", "email": address})["auth_id"]
        return self.post("/subscriptions", {"user_id": user, "subscription_plan_id": plan})["id"]

    def due(self):
        return api(self.base, "GET", "/due-payments")["data"]

    def report(self, status):
        for payment in self.due():
            api(self.base, "PUT", f"/subscription-payments/{payment['id']}", {"status": status})

    def turn(self, to, payments="leave"):
        while not self.post("/clock/advance", {"to": to, "payments": payments})["done"]:
            pass

    def last(self):
        """The sequence of the last event that the mailer may act on: it waits at the server until the next one comes."""
        types = "".join(f"&type={name}" for name in TYPES)
        return max((event["sequence"] for event in api(self.base, "GET", f"/events?limit=200{types}")["data"]), default=0)


def position(state):
    if not state.exists():
        return None
    with sqlite3.connect(f"file:{state}?mode=ro", uri=True) as stored:
        try:
            return stored.execute("SELECT max(sequence) FROM position").fetchone()[0]
        except sqlite3.OperationalError:  # the table is not there yet, or it is locked
            return None


def waiting(state):
    """The number of mails that are tried again; 1 while the table is locked."""
    with sqlite3.connect(f"file:{state}?mode=ro", uri=True) as stored:
        try:
            return stored.execute("SELECT count(*) FROM waiting").fetchone()[0]
        except sqlite3.OperationalError:
            return 1


@contextmanager
def mailing(variables, business, kill=False):
    """The mailer as a program of its own. At the end it has read every event."""
    log = open(variables["STATE"] + ".log", "ab")
    mailer = subprocess.Popen([sys.executable, "-B", MAILER], env=os.environ | variables, stderr=log)
    state = Path(variables["STATE"])
    try:
        until(lambda: position(state) is not None, "the mailer has begun")
        yield
        until(lambda: position(state) >= business.last(), "the mailer has read all events")
    finally:
        mailer.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        mailer.wait(DEADLINE)
        log.close()


def lives(business, inbox, variables):
    """Every kind of mail, once, and only if it is still true."""
    early = business.subscribe("early@example.com", business.pro)
    business.post(f"/subscriptions/{early}/cancel", {"effective": "now"})
    with mailing(variables, business):
        first = position(Path(variables["STATE"]))
        ada = business.subscribe("ada@example.com", business.trial)
        business.turn("2030-02-12T13:00:00Z")
        assert inbox.wait(1) == ("ada", "Your trial of Team ends soon")
        business.turn("2030-02-15T13:00:00Z")
        business.report("failed")
        assert inbox.wait(2) == ("ada", "Your payment for Team failed")
        business.turn("2030-02-16T14:00:00Z")
        business.report("succeeded")
        business.turn("2030-03-12T13:00:00Z")
        assert inbox.wait(3) == ("ada", "Team renews soon")
    # A payment that fails and is then paid while no mailer runs: nothing is to be said.
    business.turn("2030-03-15T13:00:00Z")
    business.report("failed")
    (failed,) = api(business.base, "GET", f"/subscriptions/{ada}/payments?limit=1")["data"]
    business.post(f"/subscription-payments/{failed['id']}/retry")
    business.report("succeeded")
    with mailing(variables, business, kill=True):
        business.post(f"/subscriptions/{ada}/cancel")
        assert inbox.wait(4) == ("ada", "Team is cancelled")
    business.turn("2030-04-15T13:00:00Z")
    with mailing(variables, business):
        assert inbox.wait(5) == ("ada", "Team has ended")
    texts = [mail.get_content() for _, mail in inbox.mails]
    expected = ["Your free trial of Team lasts until 15 February 2030.",
                "19.90 EUR could not be charged. The next attempt is on 16 February 2030.",
                "Your subscription to Team renews on 15 March 2030.",
                "Your subscription to Team is cancelled. Its last day is 15 April 2030.",
                "Your subscription to Team has ended."]
    assert len(texts) == len(expected), inbox.subjects()
    for text, begin in zip(texts, expected):
        assert text.startswith(begin), (text, begin)
    return first


def addresses(business, inbox, variables):
    """A mail that is refused for good is skipped; one that is refused for now comes later, and holds up no other. However
    people spell their addresses, mails go to the domain that their provider has verified."""
    before = len(inbox.mails)
    spelled = {"ada@bücher.example": "ada@xn--bcher-kva.example", "anna@straße.example": "anna@xn--strae-oqa.example",
               f"eve@gmail{chr(0xE0100) * 60}.com": "eve@gmail.com", "me@אב1.example": "me@xn--1-zhcd.example", "mia@ｇｍａｉｌ.com": "mia@gmail.com"}
    for address in ("refused@example.com", "spam@example.com", "busy@example.com", "full@example.com", *spelled):
        subscription = business.subscribe(address, business.pro)
        business.post(f"/subscriptions/{subscription}/cancel", {"effective": "now"})
    expected = list(spelled.values())
    with mailing(variables, business):
        inbox.wait(before + len(expected))
        assert [to for to, _ in inbox.mails[before:]] == [[to] for to in expected], inbox.subjects()[before:]
        until(lambda: inbox.refused["busy"] and inbox.refused["full"], "the other addresses were tried")
        inbox.busy = False
        assert inbox.wait(before + len(expected) + 1) == ("busy", "Pro ✓ <b> has ended")
    assert (inbox.refused["refused"], inbox.refused["spam"]) == (1, 1), inbox.refused
    with sqlite3.connect(variables["STATE"]) as state:
        assert state.execute("SELECT count(*) FROM waiting").fetchone() == (1,)
        state.execute("UPDATE waiting SET since = since - 6 * 3600, due = 0")
    with mailing(variables, business):
        until(lambda: not waiting(Path(variables["STATE"])), "the mail for the full mailbox is given up")
    log = Path(variables["STATE"] + ".log").read_text()
    assert log.count("for good: 550") == log.count("for good: 554") == log.count("the mail is given up") == 1, log


def cannot_be_made(business, inbox, variables):
    """Another system may have users, and anything as their addresses: such a mail is left out, and the next one is sent."""
    before = len(inbox.mails)
    with mailing(variables, business):
        pass
    for name in ("hex", "ian"):
        subscription = business.subscribe(f"{name}@example.com", business.pro)
        business.post(f"/subscriptions/{subscription}/cancel", {"effective": "now"})
    wrong = {"hex@example.com": "hex@exa\nmple.com"}
    process = multiprocessing.get_context("fork").Process(target=read_all, args=(variables, business.last(), 0, wrong))
    process.start()
    process.join(DEADLINE)
    assert process.exitcode == 0, process.exitcode
    assert inbox.subjects()[before:] == [("ian", "Pro ✓ <b> has ended")], inbox.subjects()[before:]


def a_login(business, inbox, variables, folder):
    """A mail server that requires a login over TLS."""
    certificate, key, password = folder / "certificate.pem", folder / "key.pem", folder / "password"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    password.write_text("secret\n")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    is_right = lambda server, session, envelope, mechanism, given: AuthResult(success=given.password == b"secret")
    address = mail_server(inbox, tls_context=tls, auth_required=True, authenticator=is_right)
    login = {"SMTP": address, "SMTP_USER": "mailer", "SMTP_PASSWORD_FILE": str(password), "SSL_CERT_FILE": str(certificate)}
    before = len(inbox.mails)
    subscription = business.subscribe("ivy@example.com", business.pro)
    business.post(f"/subscriptions/{subscription}/cancel", {"effective": "now"})
    with mailing(variables | login, business):
        assert inbox.wait(before + 1) == ("ivy", "Pro ✓ <b> has ended")


def read_all(variables, last, line, wrong=()):
    """The mailer in a process of its own, until it has read all events; it kills itself before its line-th line. It finds
    `wrong` addresses in place of others."""
    os.environ |= variables
    spec = importlib.util.spec_from_file_location("mailer", MAILER)
    mailer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mailer)
    if wrong:
        get = mailer.get
        replaced = lambda it: it | {"email": wrong.get(it["email"], it["email"])} if it and "email" in it else it
        mailer.get = lambda path, **query: replaced(get(path, **query))
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename != str(MAILER):
            return None
        if event == "line":
            lines += 1
            if lines == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    state = sqlite3.connect(variables["STATE"])
    sys.settrace(trace if line else None)
    while position(Path(variables["STATE"])) is None or position(Path(variables["STATE"])) < last:
        mailer.follow(state, wait=0)
    sys.settrace(None)


def kills(business, inbox, variables, folder):
    """Killed before each of its lines in turn and started again, the mailer sends each mail, and at most one of them twice."""
    processes = multiprocessing.get_context("forkserver")
    # Loaded once, not in each process.
    processes.set_forkserver_preload(["aiosmtpd.smtp", "email.headerregistry", "http.server", "smtplib", "subprocess", "tempfile", "urllib.request"])

    def run(line):
        process = processes.Process(target=read_all, args=(variables, last, line))
        process.start()
        process.join(DEADLINE)
        assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
        return process.exitcode == 0

    for name in ("gus", "hal"):
        subscription = business.subscribe(f"{name}@example.com", business.pro)
        business.post(f"/subscriptions/{subscription}/cancel", {"effective": "now"})
    last, state, before = business.last(), Path(variables["STATE"]), folder / "before"
    shutil.copy(state, before)
    line, repeated, has_ended = 0, 0, False
    while not has_ended:
        line += 1
        shutil.copy(before, state)
        state.with_name(state.name + "-journal").unlink(missing_ok=True)
        count = len(inbox.mails)
        has_ended = run(line)
        assert run(0)
        # Each mail again, because the copy of the state is from before both.
        ids = Counter(mail["message-id"] for _, mail in inbox.mails[count:])
        assert len(ids) == 2 and ids.total() <= 3, (line, ids)
        repeated += ids.total() - 2
    assert line > 50 and repeated > 0, (line, repeated)
    return f"{line} lines, {repeated} mails repeated"


def the_position_is_set_back(business, inbox, variables, first):
    before = len(inbox.mails)
    with sqlite3.connect(variables["STATE"]) as state:
        state.execute("UPDATE position SET sequence = ?", [first])
    with mailing(variables, business):
        until(lambda: position(Path(variables["STATE"])) >= business.last(), "all events are read again")
    assert len(inbox.mails) == before, inbox.subjects()[before:]


def main():
    logging.getLogger("mail.log").setLevel(logging.ERROR)
    inbox = Inbox()
    settings = ["--database", "memory:", "--clock", "manual", "--clock-at", "2030-02-01T12:00:00Z"]
    with tempfile.TemporaryDirectory() as name, serving(Path(name), *settings) as base:
        folder = Path(name)
        (folder / "client").write_text("mailer\n")
        variables = {"API": base, "CLIENT_ID_FILE": str(folder / "client"), "SMTP": mail_server(inbox), "LINK": LINK, "SENDER": "billing@shop.example",
                     "STATE": str(folder / "mailer.db")}
        business = Business(base)
        first = lives(business, inbox, variables)
        addresses(business, inbox, variables)
        cannot_be_made(business, inbox, variables)
        a_login(business, inbox, variables, folder)
        the_position_is_set_back(business, inbox, variables, first)
        ids = Counter(mail["message-id"] for _, mail in inbox.mails)
        assert set(ids.values()) == {1}, inbox.subjects()
        told = kills(business, inbox, variables, folder)
        feed = {f"<{event['id']}@shop.example>" for event in api(base, "GET", "/events?limit=200")["data"]}
        for to, mail in inbox.mails:
            assert mail["message-id"] in feed and mail["from"] == "billing@shop.example", mail
            assert LINK in mail.get_content() and "spt_" not in mail.as_string(), mail
    print(f"the mailer sends each mail once ({told})")


if __name__ == "__main__":
    main()
