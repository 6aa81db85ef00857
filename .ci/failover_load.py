"""The load of failover.py: writers, readers, a reader of the feed and a receiver of webhooks, and their responses."""

import hashlib
import http.client
import http.server
import json
import random
import threading
import time
import uuid
from collections import defaultdict
from datetime import datetime, timedelta, timezone

from failover_histories import Request
from failover_machines import HOST, free_ports

WRITERS = 8
READERS = 3
REGISTERS = 24
# Of the billed subscriptions, one in this number has its history checked.
WATCHED = 20
WEBHOOK_TYPE = "payment.created"
# Some callers wait for the response of a server that has no stand-by, others hang up before.
TIMEOUTS = (3, 20)


class Gateway:
    """A payment gateway that repeats its result under a key, and remembers which payments were charged under it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.charges = defaultdict(set)

    def charge(self, payment):
        with self.lock:
            self.charges[payment["charge_key"]].add(payment["id"])


class Api:
    """Calls of one thread to the two servers, at random."""

    def __init__(self, ports, rng):
        self.ports = list(ports)
        self.rng = rng
        self.timeout = rng.choice(TIMEOUTS)
        self.connections = {}

    def call(self, method, path, body=None, headers=()):
        """The status and the record of a response, or `None` twice if there is no response."""
        port = self.rng.choice(self.ports)
        connection = self.connections.get(port)
        if connection is None:
            connection = self.connections[port] = http.client.HTTPConnection(HOST, port, timeout=self.timeout)
        sent = {"client-id": "failover", "content-type": "application/json", **dict(headers)}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()
            del self.connections[port]
            return None, None


class Load:
    """Writers, readers, a reader of the feed and a receiver of webhooks, until they are stopped."""

    def __init__(self, ports, seed):
        self.ports = ports
        self.seed = seed
        self.gateway = Gateway()
        self.lock = threading.Lock()
        # The latest answered version of each record; the answered creation of each order.
        self.answered = {}
        self.orders = {}
        self.answered_count = 0
        self.refused = defaultdict(int)
        self.written_at = []
        self.histories = defaultdict(list)
        self.billed = []
        self.registers = []
        self.feed = {}
        self.feed_position = 0
        self.feed_faults = []
        self.delivered = set()
        self.is_stopping = threading.Event()
        # While an operator cancels waiting commits, nobody may rely on what a read shows.
        self.is_paused = threading.Event()
        self.observing = threading.Semaphore(READERS + 1)
        self.threads = []
        self.failure = None

    def start(self):
        self._set_up()
        for number in range(WRITERS):
            self._spawn(self._write, f"writer/{number}")
        for number in range(READERS):
            self._spawn(self._read, f"reader/{number}")
        self._spawn(self._follow, "feed")

    def stop(self):
        """Ends all but the receiver of webhooks."""
        self.is_stopping.set()
        for thread in self.threads:
            thread.join(60)

    def pause_readers(self):
        self.is_paused.set()
        for _ in range(READERS + 1):
            self.observing.acquire()

    def continue_readers(self):
        for _ in range(READERS + 1):
            self.observing.release()
        self.is_paused.clear()

    def written_since(self, moment):
        """True if a write was answered after the moment."""
        return bool(self.written_at) and self.written_at[-1] > moment

    def _wait_while_paused(self):
        while self.is_paused.is_set() and not self.is_stopping.is_set():
            time.sleep(0.05)

    def _spawn(self, run, name):
        rng = random.Random(f"{self.seed}/{name}")

        def guarded():
            try:
                run(Api(self.ports, rng), rng)
            except Exception as error:  # noqa: BLE001 -- the main thread reports it
                self.failure = error
                raise

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        self.threads.append(thread)

    def _set_up(self):
        api = Api(self.ports, random.Random(self.seed))
        self.plans = []
        for slug in ("starter", "pro"):
            body = {"name": slug, "slug": slug, "price": "9.90", "currency": "EUR", "billing_cycle": "monthly"}
            status, plan = api.call("POST", "/subscription-plans", body)
            assert status == 201, plan
            self.plans.append(plan["id"])
        receiver = http.server.ThreadingHTTPServer((HOST, free_ports(1)[0]), receiver_of(self.delivered))
        # A server that is killed leaves connections behind.
        receiver.handle_error = lambda *_: None
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        url = f"http://{HOST}:{receiver.server_port}/"
        status, endpoint = api.call("POST", "/webhook-endpoints", {"url": url, "types": [WEBHOOK_TYPE]})
        assert status == 201, endpoint
        self.webhooks_after = endpoint["cursor"]
        for number in range(REGISTERS):
            body = {"user_id": str(uuid.uuid4()), "subscription_plan_id": self.plans[0], "managed_by": "caller",
                    "metadata": {"value": f"{number}/0"}}
            sent = time.monotonic()
            status, register = api.call("POST", "/subscriptions", body)
            assert status == 201, register
            self._succeeded(register)
            self.histories[register["id"]].append(
                Request("write", sent, time.monotonic(), register["version"], f"{number}/0"))
            self.registers.append(register["id"])

    def _succeeded(self, record):
        with self.lock:
            self.answered[record["id"]] = max(record["version"], self.answered.get(record["id"], 0))
            self.answered_count += 1
            self.written_at.append(time.monotonic())

    def _surely(self, api, method, path, body, rng):
        """Sends a request with an idempotency key until its outcome is known. `None` if the load ends before."""
        key = str(uuid.UUID(int=rng.getrandbits(128)))
        while not self.is_stopping.is_set():
            status, record = api.call(method, path, body, {"idempotency-key": key})
            if status is not None and status < 500 and status != 429:
                return status, record
            time.sleep(0.2)
        return None, None

    def _write(self, api, rng):
        while not self.is_stopping.is_set():
            (action,) = rng.choices([self._create, self._change_plan, self._report, self._set_register], [3, 2, 4, 3])
            action(api, rng)
            # Three PostgreSQL and two servers share the machine with this program.
            time.sleep(rng.uniform(0.01, 0.05))

    def _create(self, api, rng):
        order = str(uuid.UUID(int=rng.getrandbits(128)))
        body = {"user_id": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
                "subscription_plan_id": rng.choice(self.plans), "metadata": {"order": order}}
        if rng.random() < 0.6:
            # It is brought along from elsewhere, and renews soon.
            soon = datetime.now(timezone.utc) + timedelta(seconds=rng.uniform(2, 40))
            body |= {"status": "active", "renews_at": soon.isoformat()}
            body["metadata"]["brought"] = "yes"
        sent = time.monotonic()
        status, record = self._surely(api, "POST", "/subscriptions", body, rng)
        if status is None:
            return
        if status == 422:
            # Its renewal was in the future when it was sent first. Nothing is known of that first request: its commit
            # may have waited for a stand-by, and was visible to nobody, when this repetition was refused.
            self.refused["create 422"] += 1
            return
        assert status == 201, (status, record)
        self._succeeded(record)
        with self.lock:
            self.orders[order] = record["id"]
            self.billed.append(record["id"])
            if len(self.billed) % WATCHED == 0:
                self.histories[record["id"]].append(Request("write", sent, time.monotonic(), record["version"]))

    def _change_plan(self, api, rng):
        if not self.billed:
            return
        subscription = rng.choice(self.billed[-2000:])
        how = rng.choice([{"effective": "period_end"}, {"effective": "now", "proration": "none"}])
        body = {"subscription_plan_id": rng.choice(self.plans), **how}
        sent = time.monotonic()
        status, record = self._surely(api, "POST", f"/subscriptions/{subscription}/change-plan", body, rng)
        if status is None:
            return
        if status != 200:
            self.refused[f"change-plan {status} {record.get('code')}"] += 1
            return
        self._succeeded(record)
        # The response to a change that changes nothing is that of a read.
        if subscription in self.histories:
            self.histories[subscription].append(
                Request("read", sent, time.monotonic(), record["version"], binds=not self.is_paused.is_set()))

    def _report(self, api, rng):
        """A collector: begins, charges and reports one payment."""
        listed = rng.choice(["processing", "pending", "pending", "pending"])
        status, page = api.call("GET", f"/due-payments?status={listed}&limit=50")
        if status != 200 or not page["data"]:
            return
        payment = rng.choice(page["data"])
        path = f"/subscription-payments/{payment['id']}"
        for wanted in ("processing", "succeeded"):
            if payment["status"] == wanted:
                continue
            status, changed = api.call("PUT", path, {"status": wanted}, {"if-match": f'"{payment["version"]}"'})
            if status != 200:
                self.refused[f"report {status}"] += 1
                return
            self._succeeded(changed)
            if wanted == "processing":
                self.gateway.charge(changed)
            payment = changed

    def _set_register(self, api, rng):
        """Changes a subscription that nobody else writes, if its version is still that of a read just before."""
        register = rng.choice(self.registers)
        read = self._read_register(api, register)
        if read is None:
            return
        value = str(uuid.UUID(int=rng.getrandbits(128)))
        request = Request("write", time.monotonic(), value=value)
        self.histories[register].append(request)
        status, record = api.call(
            "PUT", f"/subscriptions/{register}", {"metadata": {"value": value}}, {"if-match": f'"{read}"'})
        if status == 200:
            request.version = record["version"]
            request.returned = time.monotonic()
            self._succeeded(record)
        elif status is not None and status < 500:
            # Refused: it wrote nothing.
            request.returned = time.monotonic()
            self.refused[f"register {status}"] += 1

    def _read_register(self, api, register):
        return self._observe(api, register, lambda record: record["metadata"]["value"])

    def _observe(self, api, subscription, value_of):
        sent = time.monotonic()
        binds = not self.is_paused.is_set()
        status, record = api.call("GET", f"/subscriptions/{subscription}")
        if status not in (200, 404):
            return None
        request = Request("read", sent, time.monotonic(), binds=binds and not self.is_paused.is_set())
        if status == 200:
            request.version = record["version"]
            request.value = value_of(record)
        self.histories[subscription].append(request)
        return request.version

    def _read(self, api, rng):
        while not self.is_stopping.is_set():
            self._wait_while_paused()
            with self.observing:
                if rng.random() < 0.6:
                    self._read_register(api, rng.choice(self.registers))
                else:
                    watched = [it for it in list(self.histories) if it not in self.registers][-200:]
                    if watched:
                        self._observe(api, rng.choice(watched), lambda _: None)
            time.sleep(rng.uniform(0.01, 0.04))

    def _follow(self, api, _):
        """Reads the feed as it grows. A sequence that comes again must have the same event."""
        while not self.is_stopping.is_set():
            self._wait_while_paused()
            with self.observing:
                status, page = api.call("GET", f"/events?after={self.feed_position}&limit=200&wait=1")
                if status == 200:
                    for event in page["data"]:
                        if event["sequence"] <= self.feed_position:
                            self.feed_faults.append(f"sequence {event['sequence']} came after {self.feed_position}")
                        self.feed_position = event["sequence"]
                        self.feed[event["sequence"]] = digest(event)
            if status != 200:
                time.sleep(0.2)


def digest(event):
    return event["id"], event["type"], hashlib.sha256(json.dumps(event, sort_keys=True).encode()).hexdigest()[:16]


def receiver_of(delivered):
    class Receiver(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            delivered.add(self.headers["webhook-id"])
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    return Receiver
