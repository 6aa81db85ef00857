"""Sends mails to the people whose subscriptions change. It follows the feed of events. docs/portal.md says how to run it.

It needs Python 3.9 and these variables: API (the server), CLIENT_ID_FILE (with the key of a client), SMTP (host:port; with
SMTP_USER and SMTP_PASSWORD_FILE if it needs a login), SENDER (an address), STATE (a file), LINK (a page that people sign in to).
"""
import http.client, json, os, smtplib, sqlite3, ssl, sys, time, urllib.error, urllib.parse, urllib.request
from datetime import datetime, timedelta, timezone
from email.headerregistry import Address
from email.message import EmailMessage

API, SMTP, SENDER, STATE, LINK = (os.environ[name] for name in ("API", "SMTP", "SENDER", "STATE", "LINK"))
HEADERS = {"client-id": open(os.environ["CLIENT_ID_FILE"]).read().strip()}
TYPES = ["payment.status_changed.failed", "subscription.trial_will_end", "subscription.renewal_upcoming",
         "subscription.status_changed.cancelled", "subscription.status_changed.expired"]
RETRY, GIVE_UP = (5, 600), 6 * 3600  # seconds: the shortest and the longest pause before a mail is tried again, and for how long it is

def get(path, **query):
    """The JSON at a path, with amounts as the server writes them; None if there is no such record."""
    request = urllib.request.Request(f"{API}{path}?{urllib.parse.urlencode(query, doseq=True)}", headers=HEADERS)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response, parse_float=str)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise

def day(time, before=timedelta(0)):
    return f"{datetime.strptime(time, '%Y-%m-%dT%H:%M:%S.%fZ') - before:%d %B %Y}".lstrip("0")

def mail_of(event):
    """The address, the subject and the text of a mail; None if the record is no longer as the event says."""
    change, id = event["change"], event["subject"]["id"]
    what = change.get("to") or event["type"].split(".")[1]
    payment = get(f"/subscription-payments/{id}") if event["subject"]["kind"] == "payment" else None
    subscription = get(f"/subscriptions/{payment['subscription_id'] if payment else id}")
    plan = subscription and get(f"/subscription-plans/{subscription['subscription_plan_id']}")
    user = plan and get(f"/users/{subscription['user_id']}")  # if another system has your users: look there
    record = payment or subscription
    dated = {"trial_will_end": ("on_trial", "trial_ends_at"), "renewal_upcoming": ("active", "renews_at")}
    status, date = dated.get(what, (what, None))
    if not user or record["status"] != status or (date and record[date] != change[date]):
        return None
    email, name = user["email"], plan["name"]  # the server gives the domain of an address in ASCII
    if what == "failed":
        again = record["next_attempt_at"] and f"The next attempt is on {day(record['next_attempt_at'])}."
        text = f"{record['amount']} {record['currency']} could not be charged. {again or 'It is not tried again by itself.'}"
        return email, f"Your payment for {name} failed", text
    if what == "trial_will_end":
        return email, f"Your trial of {name} ends soon", f"Your free trial of {name} lasts until {day(record[date])}."
    if what == "renewal_upcoming":
        return email, f"{name} renews soon", f"Your subscription to {name} renews on {day(record[date])}."
    if what == "cancelled":
        end = day(record["ends_at"], timedelta(microseconds=1))
        return email, f"{name} is cancelled", f"Your subscription to {name} is cancelled. Its last day is {end}."
    return email, f"{name} has ended", f"Your subscription to {name} has ended."

def say(event, what):
    print(f"event {event['id']}: {what}", file=sys.stderr, flush=True)

def message_of(event, email, subject, text):
    name, _, domain = email.rpartition("@")
    message = EmailMessage()
    # If the program is killed before its commit, it sends the mail again, with the same id.
    message["Message-ID"], message["Date"] = f"<{event['id']}@{SENDER.split('@')[1]}>", datetime.now(timezone.utc)
    message["From"], message["To"] = SENDER, Address(username=name, domain=domain.encode("ascii").decode())
    message["Subject"], message["Auto-Submitted"] = " ".join(subject.split()), "auto-generated"
    message.set_content(f"{text}\n\nSee your subscription, or change it:\n{LINK}\n")
    message.as_bytes()
    return message

def send(event, message):
    """Sends a mail; False if it is refused for now. An exception means that the mail server would send no other mail either."""
    with smtplib.SMTP(*SMTP.rsplit(":", 1), timeout=60) as server:
        if "SMTP_USER" in os.environ:
            server.starttls(context=ssl.create_default_context())
            server.login(os.environ["SMTP_USER"], open(os.environ["SMTP_PASSWORD_FILE"]).read().strip())
        server.ehlo_or_helo_if_needed()
        try:
            server.send_message(message)
            return True
        except smtplib.SMTPSenderRefused:
            raise
        except smtplib.SMTPRecipientsRefused as error:
            ((code, why),) = error.recipients.values()
        except smtplib.SMTPNotSupportedError as error:
            code, why = 550, error
        except smtplib.SMTPResponseException as error:
            code, why = error.smtp_code, error.smtp_error
        except OSError as error:  # the connection was lost during this mail
            code, why = 421, error
    say(event, f"the mail is refused {'for good' if code >= 500 else 'for now'}: {code} {why}")
    return code >= 500

def act_on(event):
    """Sends the mail of an event, if it is still to be sent; False if it is to be tried again."""
    mail = mail_of(event)
    try:
        message = mail and message_of(event, *mail)
    except (ValueError, LookupError) as error:
        say(event, f"the mail cannot be made, and is left out: {error!r}")
        return True
    return not message or send(event, message)

def retry(state, now):
    """Acts again on the events whose mail was refused for now. One of them does not hold up the others."""
    for id, event, since in state.execute("SELECT event_id, event, since FROM waiting WHERE due <= ?", [now]).fetchall():
        with state:
            if act_on(json.loads(event)):
                state.execute("DELETE FROM waiting WHERE event_id = ?", [id])
            elif now - since >= GIVE_UP:
                state.execute("DELETE FROM waiting WHERE event_id = ?", [id])
                say(json.loads(event), "the mail is given up")
            else:
                pause = min(max(now - since, RETRY[0]), RETRY[1])
                state.execute("UPDATE waiting SET due = ? WHERE event_id = ?", [now + pause, id])

def follow(state, wait):
    """Acts on the next page of events. The first page begins after the newest event."""
    for table in ("acted_on (event_id TEXT PRIMARY KEY)", "position (sequence INTEGER NOT NULL)",
                  "waiting (event_id TEXT PRIMARY KEY, event TEXT NOT NULL, since REAL NOT NULL, due REAL NOT NULL)"):
        state.execute(f"CREATE TABLE IF NOT EXISTS {table}")
    (position,) = state.execute("SELECT max(sequence) FROM position").fetchone()
    if position is None:
        with state:
            state.execute("INSERT INTO position VALUES (?)", [position := get("/events", limit=1)["last"]])
    retry(state, time.time())
    (waiting,) = state.execute("SELECT count(*) FROM waiting").fetchone()
    page = get("/events", after=position, wait=min(wait, RETRY[0]) if waiting else wait, type=TYPES)
    for event in page["data"]:
        with state:  # commits; after an exception it rolls back
            is_new = state.execute("INSERT OR IGNORE INTO acted_on VALUES (?)", [event["id"]]).rowcount
            if is_new and not act_on(event):
                now = time.time()
                state.execute("INSERT INTO waiting VALUES (?, ?, ?, ?)", [event["id"], json.dumps(event), now, now + RETRY[0]])
    with state:
        # If the server's database was restored from a copy, its last event is before the position.
        state.execute("UPDATE position SET sequence = ?", [min(page["next_after"], page["last"])])

if __name__ == "__main__":
    state = sqlite3.connect(STATE)
    while True:
        try:
            follow(state, wait=25)
        except (OSError, http.client.HTTPException, ValueError, sqlite3.OperationalError) as error:
            print(f"tries again in 5 seconds: {error}", file=sys.stderr, flush=True)
            time.sleep(5)
