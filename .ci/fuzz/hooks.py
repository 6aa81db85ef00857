"""What the document cannot tell: a live session, records to refer to, and what makes data sound.

Data that breaks the document on purpose is left as it is. Data that keeps to it is mended where it
could not be sound: a cursor, a version and a reference must be ones that the server gave.
"""

import hashlib
import json
import os
import urllib.error
import urllib.request

import schemathesis

BASE = os.environ["API"]


def post(path, body):
    headers = {"client-id": "fuzz", "content-type": "application/json"}
    request = urllib.request.Request(BASE + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def sign_in(email, paths):
    """A new session; the account may have been deleted by a call before."""
    for path in paths:
        try:
            return post(path, {"access_token": "any", "email": email})
        except urllib.error.HTTPError as refused:
            if refused.code not in (404, 409):
                raise
    raise RuntimeError("neither signed in nor up")


OWNER = sign_in("owner@example.com", ["/authentication/sign-up"])["auth_id"]
PLAN = post("/subscription-plans", {"name": "Fuzz", "slug": "fuzz", "price": 1, "billing_cycle": "monthly"})
SUBSCRIPTION = post("/subscriptions", {"user_id": OWNER, "subscription_plan_id": PLAN["id"]})
EXISTING = {"user_id": OWNER, "subscription_plan_id": PLAN["id"], "subscription_id": SUBSCRIPTION["id"]}


@schemathesis.auth(refresh_interval=None).apply_to(path_regex="/(user-logged-in|tokens|delete-my-account)")
class Session:
    """One for each call, because half of these operations end it."""

    def get(self, case, context):
        return sign_in("fuzz@example.com", ["/authentication/sign-in", "/authentication/sign-up"])

    def set(self, case, session, context):
        case.headers["Authorization"] = f"Bearer {session['access_token']}"
        if breaks_the_document(case) or "auth_id" not in case.path_parameters:
            return
        case.path_parameters["auth_id"] = session["auth_id"]


def breaks_the_document(case):
    return case.meta is not None and case.meta.generation.mode.is_negative


def has_blank_ends(value):
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return isinstance(value, str) and value != value.strip() or any(map(has_blank_ends, values))


@schemathesis.hook
def filter_case(context, case):
    """Text is trimmed before it is looked at: what breaks the document may not break the rule."""
    return not (breaks_the_document(case) and has_blank_ends([case.body, case.query or {}]))


def sound(value):
    """A number as people write it: Python writes whole floats as 1.0 and small ones as 1e-05."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else f"{value:.6f}"
    return value


@schemathesis.hook
def before_call(context, case, kwargs):
    if breaks_the_document(case):
        return
    query = case.query or {}
    query.pop("cursor", None)
    if case.operation.path == "/users":
        # One filter at a time, and an address that is one.
        for name in [name for name in ("email", "email_starts_with", "id") if name in query][1:]:
            del query[name]
        if "email" in query:
            query["email"] = "owner@example.com"
    if "If-Match" in (case.headers or {}):
        case.headers["If-Match"] = "*"
    if not isinstance(case.body, dict):
        return
    case.body = {field: EXISTING.get(field, sound(value)) for field, value in case.body.items()}
    if "Idempotency-Key" in case.headers:
        body = json.dumps(case.body, sort_keys=True).encode()
        case.headers["Idempotency-Key"] = hashlib.sha256(body).hexdigest()
