"""Whether records are all there and as they were written. Pure: it is fed with records, from wherever.

What cannot be shown is that the last records of a chain are there whose writer neither closed it nor was
recovered: nothing after them names them yet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hookgate.proxy.audit.chain import chained, content_hash
from hookgate.proxy.audit.heads import Head
from hookgate.proxy.audit.report import Report
from hookgate.translator.fields import JsonObject


@dataclass(slots=True)
class _Chain:
    """What was seen of one writer."""

    first: int
    before: str
    """The hash that its first record names."""
    last: int
    tip: str
    closed: int | None = None


class Checker:
    """Follows the chains of any number of writers, each in its order."""

    def __init__(self, *, whole: bool, expected: Iterable[tuple[str, Head]] = ()) -> None:
        """`whole`: what is fed begins where chains begin, but for what retention removed.

        `expected`: how far writers had come, as it was noted elsewhere.
        """
        self.report = Report()
        self._whole = whole
        self._chains: dict[str, _Chain] = {}
        self._open: dict[str, str] = {}
        self._unbegun: list[str] = []
        self._tips: dict[int, tuple[int, str]] = {}
        self._gone: set[int] = set()
        self._sealed: dict[int, tuple[int, str | None]] = {}
        self._expected = set(expected)
        self._confirmed: set[tuple[str, int, str]] = set()
        self._awaited = {(writer, head.seq, head.hash) for writer, head in self._expected}
        self._named: list[dict[str, Head]] = []

    def record(self, document: JsonObject, own_hash: str, content: JsonObject | None) -> None:
        """The next record: what is hashed of it, its hash as it is stored, and its content if it has any."""
        self.report.records += 1
        place = f"writer {document['writer']}, record {document['seq']}"
        if chained(document["previous"], document) != own_hash:
            self.report.tell(f"{place}: it was changed")
        self._follow(document, own_hash, place)
        expected = document["content_sha256"]
        if (content_hash(content) if content is not None else None) != expected:
            self.report.tell(f"{place}: its content was {'removed' if content is None else 'changed'}")
        self._pair(document, place)
        if document["type"] == "event" and isinstance(document["body"], dict):
            self._heed(document)

    def unreadable(self, writer: str, seq: int, own_hash: str, why: str) -> None:
        """The next record, of which no more can be read."""
        self.report.records += 1
        self.report.tell(f"writer {writer}, record {seq}: {why}")
        if chain := self._chains.get(writer):
            chain.last, chain.tip = seq, own_hash

    def _follow(self, document: JsonObject, own_hash: str, place: str) -> None:
        writer, seq, previous = document["writer"], document["seq"], document["previous"]
        self._confirmed |= self._awaited & {(writer, seq, own_hash)}
        chain = self._chains.get(writer)
        if chain is None:
            self._chains[writer] = _Chain(seq, previous, seq, own_hash)
            return
        if chain.closed is not None:
            self.report.tell(f"{place}: it stands behind the end of its chain")
        if seq <= chain.last:
            self.report.tell(f"{place}: it is there twice, or not in its order")
        elif seq > chain.last + 1:
            self.report.tell(f"writer {writer}: {_span(chain.last + 1, seq - 1)} missing")
        elif previous != chain.tip:
            self.report.tell(f"{place}: it does not follow the one before it")
        chain.last, chain.tip = seq, own_hash

    def _pair(self, document: JsonObject, place: str) -> None:
        call = document["id"]
        if document["type"] == "start":
            if call in self._open:
                self.report.tell(f"{place}: the call {call} began before")
            self._open[call] = document["writer"]
        elif document["type"] == "end" and self._open.pop(call, None) is None:
            self._unbegun.append(f"{place}: the call {call} has an end and no start")

    def _heed(self, document: JsonObject) -> None:
        body = document["body"]
        match body.get("event"):
            case "closed":
                self._chains[document["writer"]].closed = body["count"]
            case "recovered":
                self._sealed[body["writer"]] = body["seq"], body["hash"]
            case "retention":
                self._tips |= {int(number): (tip[0], tip[1]) for number, tip in body["tips"].items()}
                self._gone |= {each for low, high in body["gone"] for each in range(low, high + 1)}

    def heads(self, heads: dict[str, Head]) -> None:
        """A line of an export that says which records of each writer it has."""
        self._named.append(heads)

    # ---- the end

    def finish(self, registered: list[tuple[JsonObject, str]], ended: Mapping[int, str]) -> Report:
        """What was found. Writers in their order, each with the hash of its registration; how they ended."""
        self._check_registrations(registered)
        numbers = {str(document.get("writer")): document.get("number", 0) for document, _ in registered}
        hashes = {str(document.get("writer")): own for document, own in registered}
        for writer in self._chains.keys() - numbers.keys():
            self.report.tell(f"writer {writer}: its registration is missing")
        for writer, number in numbers.items():
            self._check_chain(writer, number, hashes[writer], ended.get(number, ""))
        self._check_expected(numbers, hashes)
        self._check_named()
        self._tell_chains(numbers)
        for call, owner in self._open.items():
            number = numbers.get(owner, 0)
            if number in self._sealed or ended.get(number) or self._is_closed(owner):
                self.report.tell(f"the call {call} of writer {owner} has no end")
            else:
                self.report.running += 1
        if self._whole and not (self._tips or self._gone):
            for problem in self._unbegun:
                self.report.tell(problem)
        return self.report

    def _check_expected(self, numbers: Mapping[str, int], hashes: Mapping[str, str]) -> None:
        """Compare with what was noted elsewhere; what retention removed since then is on record."""
        for writer, head in sorted(self._expected, key=lambda each: (each[1].number, each[1].seq)):
            if hashes.get(writer) != head.registration:
                self.report.tell(f"writer {writer}: its registration, which was there before, is missing")
                continue
            number = numbers[writer]
            removed = number in self._gone or self._tips.get(number, (0, ""))[0] >= head.seq
            if head.seq and (writer, head.seq, head.hash) not in self._confirmed and not removed:
                self.report.tell(
                    f"writer {writer}: its records up to {head.seq}, which were there before, "
                    "are missing or changed"
                )

    def _check_named(self) -> None:
        for writer, head in ((writer, head) for heads in self._named for writer, head in heads.items()):
            chain = self._chains.get(writer)
            if head.seq == 0:
                continue
            if chain is None:
                self.report.tell(f"writer {writer}: all its records are missing")
                continue
            if chain.first > head.first:
                self.report.tell(f"writer {writer}: {_span(head.first, chain.first - 1)} missing")
            if chain.last < head.seq:
                self.report.tell(f"writer {writer}: {_span(chain.last + 1, head.seq)} missing")
            elif chain.last == head.seq and chain.tip != head.hash:
                self.report.tell(f"writer {writer}: its last record is another one")

    def _tell_chains(self, numbers: Mapping[str, int]) -> None:
        self.report.partial = not (self._whole and self._expected) and not self._named
        for writer in sorted(self._chains, key=lambda writer: numbers.get(writer, 0)):
            chain = self._chains[writer]
            how = "closed" if chain.closed is not None else "open"
            if numbers.get(writer) in self._sealed:
                how = "ended by another writer"
            self.report.chains.append(f"writer {writer}: records {chain.first} to {chain.last}, {how}")

    def _is_closed(self, writer: str) -> bool:
        chain = self._chains.get(writer)
        return chain is not None and chain.closed is not None

    def _check_registrations(self, registered: list[tuple[JsonObject, str]]) -> None:
        self.report.writers = len(registered)
        before: tuple[int, str] | None = (0, "0" * 64) if self._whole else None
        for document, own in registered:
            number, previous = document.get("number", 0), str(document.get("previous", ""))
            if chained(previous, document) != own:
                self.report.tell(f"writer {document.get('writer')}: its registration was changed")
            if before and (number, previous) != (before[0] + 1, before[1]):
                self.report.tell(f"writer {document.get('writer')}: the one registered before it is missing")
            before = number, own

    def _check_chain(self, writer: str, number: int, registration: str, ended: str) -> None:
        chain = self._chains.get(writer)
        removed = self._tips.get(number)
        if chain is None:
            self._check_absent(writer, number, removed, ended)
            return
        if chain.first == 1:
            if chain.before != registration:
                self.report.tell(f"writer {writer}, record 1: it does not follow its registration")
        elif removed == (chain.first - 1, chain.before):
            self.report.removed += 1
        elif self._whole:
            self.report.tell(f"writer {writer}: {_span(1, chain.first - 1)} missing")
        self._check_tail(writer, chain, self._sealed.get(number), ended)

    def _check_absent(self, writer: str, number: int, removed: tuple[int, str] | None, ended: str) -> None:
        """A writer of which no record is there."""
        if not self._whole:
            return
        sealed = self._sealed.get(number)
        if number in self._gone or (removed and (sealed == removed or not ended)):
            self.report.removed += 1
        elif ended == "closed" or (sealed and sealed[0]) or (ended == "recovered" and not sealed):
            self.report.tell(f"writer {writer}: all its records are missing")

    def _check_tail(
        self, writer: str, chain: _Chain, sealed: tuple[int, str | None] | None, ended: str
    ) -> None:
        if sealed and sealed != (chain.last, chain.tip):
            self.report.tell(f"writer {writer}: its last records are missing or changed")
        if chain.closed is not None and chain.closed != chain.last:
            self.report.tell(f"writer {writer}: it wrote {chain.closed} records, {chain.last} are there")
        told = "closed" if chain.closed is not None else "recovered" if sealed else ""
        if ended != told and self._whole:
            self.report.tell(f"writer {writer}: the record of its end is missing")


def _span(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"


def document_of(line: Mapping[str, Any]) -> JsonObject:
    """What is hashed of an exported record."""
    return {name: value for name, value in line.items() if name not in ("hash", "content")}
