"""What is remembered of sessions and calls: no key crowds out another, nor do keys that are made up."""

from hookgate.hooks import CallState, Session
from hookgate.proxy.accepted import AcceptedKeys
from hookgate.proxy.records import CallRecord, Receipts
from hookgate.proxy.records import receipts as kept
from hookgate.proxy.sessions import KEPT, Sessions, fingerprint


def session(key: str, name: str) -> Session:
    return Session(name, key=key)


def answered(key: str) -> CallRecord:
    """The record of a call that the model has answered."""
    record = CallRecord(kind="judged", session=session(key, "s"))
    with record.asking() as asked:
        asked.begun(200)
    record.end(200, 0)
    return record


def accepted(*names: str) -> AcceptedKeys:
    keys = AcceptedKeys()
    for name in names:
        keys.note(answered(name))
    return keys


def test_one_keys_sessions_take_nothing_from_those_of_another() -> None:
    sessions = Sessions(accepted("alice", "mallory"))
    sessions.of(session("alice", "mine")).stopped = "enough"
    sessions.announce(session("alice", "mine"), "what now?")
    for number in range(KEPT + 200):
        flood = session("mallory", f"s-{number}")
        sessions.of(flood)
        sessions.announce(flood, str(number))
    assert sessions.of(session("alice", "mine")).stopped == "enough"
    assert sessions.linked(session("alice", "x"), [fingerprint("what now?")]).session_id == "mine"
    assert len(sessions) == KEPT


def test_keys_that_are_made_up_take_nothing_from_one_that_works() -> None:
    sessions = Sessions(accepted("alice"))
    for number in range(100):
        sessions.of(session("alice", f"mine-{number}")).stopped = "enough"
    for number in range(KEPT + 200):
        sessions.of(session(f"junk-{number}", "s"))
    assert all(sessions.of(session("alice", f"mine-{n}")).stopped for n in range(100))


def test_what_was_told_before_a_keys_first_answer_is_kept_after_it() -> None:
    keys = AcceptedKeys()
    sessions = Sessions(keys)
    sessions.of(session("alice", "mine")).stopped = "enough"
    keys.note(answered("alice"))
    for number in range(KEPT + 200):
        sessions.of(session(f"junk-{number}", "s"))
        if number == 0:
            assert sessions.of(session("alice", "mine")).stopped == "enough"
    assert sessions.of(session("alice", "mine")).stopped == "enough"
    sessions.end(session("alice", "mine"))
    assert sessions.of(session("alice", "mine")).stopped is None


def test_the_same_name_below_another_key_is_another_session() -> None:
    sessions = Sessions()
    sessions.of(session("alice", "s")).stopped = "enough"
    assert sessions.of(session("bob", "s")).stopped is None


def test_a_refused_key_is_not_an_accepted_one() -> None:
    keys = AcceptedKeys()
    record = CallRecord(kind="judged", session=session("junk", "s"))
    with record.asking() as asked:
        asked.begun(400)
    keys.note(record)
    keys.note(CallRecord(kind="judged", session=session("junk", "s")))
    assert keys.owners("junk") == (*keys.owners("other")[:1], "junk")


def test_one_keys_receipts_take_nothing_from_those_of_another() -> None:
    receipts = Receipts()
    first = answered("alice")
    receipts.add(first)
    for _ in range(kept.KEPT + 200):
        receipts.add(CallRecord(session=session("mallory", "s"), calls=[CallState()]))
    last = answered("alice")
    receipts.add(last)
    assert receipts.of(first.id, "alice") is not None
    assert receipts.of(first.id, "mallory") is None
    ids = [each["receipt"] for each in receipts.latest()]
    assert (ids[0], ids[-1], len(ids)) == (last.id, first.id, kept.KEPT)
