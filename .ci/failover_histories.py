"""Checks that the history of a record's requests is linearizable. Versions order the writes, so no search is needed.

The rules, for one record:
(a) no two successful writes have one version;
(b) a request that is sent after the response to a write of version v finds v or later (a write makes a later one), and
    finds nothing only after a deletion was sent;
(c) a read of version v has the value of the write of v, or of a write without a known outcome that was sent before the
    response to the read;
(d) of two requests, one after the other, the second does not find an older version.
"""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Request:
    """A request for a record, and its response."""

    kind: str  # "write", "read" or "delete"
    sent: float
    # Infinity if there was no response, or one that leaves the outcome open.
    returned: float = math.inf
    # None: the outcome is not known, or the record was not found.
    version: int | None = None
    # None: the value is not compared, because others write the record too.
    value: str | None = None
    # False for a read while an operator cancels commits that wait for a stand-by: it may show one that is lost later.
    binds: bool = True


def faults(requests):
    """Each breach of the rules, in words."""
    found = []
    writes = {}
    for request in requests:
        if request.kind == "write" and request.version is not None:
            if request.version in writes:
                found.append(f"(a) two writes made version {request.version}")
            writes[request.version] = request
    unknown = [it for it in requests if it.kind == "write" and it.version is None and it.returned == math.inf]
    deletions = [it.sent for it in requests if it.kind == "delete"]

    ended = sorted((it for it in requests if it.version is not None), key=lambda it: it.returned)
    written, seen, place = 0, 0, 0
    for request in sorted(requests, key=lambda it: it.sent):
        while place < len(ended) and ended[place].returned < request.sent:
            earlier = ended[place]
            if earlier.kind == "write":
                written = max(written, earlier.version)
            if earlier.kind == "write" or earlier.binds:
                seen = max(seen, earlier.version)
            place += 1
        if request.returned == math.inf:
            continue
        if request.version is None:
            if request.kind == "read" and seen > 0 and not any(sent < request.returned for sent in deletions):
                found.append(f"(b) version {seen} was not found, and nothing deleted it")
            continue
        # A write makes a version of its own, a read may find the same one again.
        least = 1 if request.kind == "write" else 0
        if request.version < written + least:
            found.append(f"(b) a {request.kind} of version {request.version} after the write of {written}")
        elif request.version < seen + least:
            found.append(f"(d) a {request.kind} of version {request.version} after a response with {seen}")
        if request.kind == "read" and request.value is not None:
            write = writes.get(request.version)
            if write is not None:
                is_right = write.value == request.value and write.sent < request.returned
            else:
                is_right = any(it.value == request.value and it.sent < request.returned for it in unknown)
            if not is_right:
                found.append(f"(c) version {request.version} with the value {request.value}, which no write has")
    return found


def self_test():
    """Histories made by hand: sound ones are accepted, and each fault is found under its rule."""

    def write(sent, returned, version, value):
        return Request("write", sent, returned, version, value)

    def read(sent, returned, version, value, binds=True):
        return Request("read", sent, returned, version, value, binds)

    def lost(sent, value):
        return Request("write", sent, value=value)

    begin = [write(0, 1, 1, "a"), write(2, 3, 2, "b")]
    sound = {
        "one after the other": [*begin, read(4, 5, 2, "b")],
        "a read beside a write finds the old version": [*begin, read(2, 3, 1, "a")],
        "a read beside a write finds the new version": [*begin, read(2.1, 2.2, 2, "b"), read(4, 5, 2, "b")],
        "a write without a response is found": [*begin, lost(4, "c"), read(5, 6, 3, "c")],
        "a write without a response is not found": [*begin, lost(4, "c"), read(5, 6, 2, "b"), write(7, 8, 3, "d")],
        "a write without a response is found late": [*begin, lost(4, "c"), read(5, 6, 2, "b"), read(7, 8, 3, "c")],
        "a deletion": [*begin, Request("delete", 4, 6), Request("read", 5, 6)],
        "a read that does not bind": [*begin, lost(4, "c"), read(5, 6, 3, "c", False), read(7, 8, 2, "b")],
    }
    for name, requests in sound.items():
        assert not faults(requests), (name, faults(requests))
    wrong = {
        "a version is used twice": ("(a)", [*begin, write(4, 5, 2, "c")]),
        "a stale read": ("(b)", [*begin, read(4, 5, 1, "a")]),
        "a write that ends before the last one": ("(b)", [write(0, 1, 5, "a"), write(2, 3, 4, "b")]),
        "a record is absent": ("(b)", [*begin, Request("read", 4, 5)]),
        "a deletion that is sent later": ("(b)", [*begin, Request("read", 4, 5), Request("delete", 6, 7)]),
        "another value": ("(c)", [*begin, read(4, 5, 2, "a")]),
        "a value from the future": ("(c)", [*begin, read(4, 5, 3, "c"), lost(6, "c")]),
        "a version goes back": ("(d)", [*begin, lost(3.5, "c"), read(4, 5, 3, "c"), read(6, 7, 2, "b")]),
        "a version that was seen is made": ("(d)", [*begin, lost(3.5, "c"), read(4, 5, 3, "c"), write(6, 7, 3, "d")]),
    }
    for name, (rule, requests) in wrong.items():
        assert any(fault.startswith(rule) for fault in faults(requests)), (name, faults(requests))
