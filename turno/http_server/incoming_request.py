"""Tell, while a request arrives, whether all of it is here."""

from __future__ import annotations

import re

# Bytes. Gunicorn's own limits allow 800 KB of headers; the longest token that is read has 8 KB.
LARGEST_HEAD = 65_536
LONGEST_CHUNK_LINE = 8_192
END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([^\r\n]*?)[ \t]*(?=\r\n|$)")
CHUNKED = re.compile(rb"\r\ntransfer-encoding:")
EXPECTS = re.compile(rb"\r\nexpect:[ \t]*100-continue[ \t]*(?:\r\n|$)")
HEX = re.compile(rb"([0-9a-f]{1,15})[ \t]*(?:;|$)", re.IGNORECASE)


class TooLarge(Exception):
    """More has arrived than any request that is served has; `status` and `reason` say so to the client."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class IncomingRequest:
    """Knows where a request ends, and nothing else of it: it is parsed by gunicorn, when it is whole.

    A request counts as whole, too, when what is here decides it: it makes no sense, or its body is larger than
    `largest_body` and will be refused.
    """

    def __init__(self, largest_body: int) -> None:
        self.received = bytearray()
        self.whole = False
        self.waits_for_continue = False
        self._largest_body = largest_body
        self._seen = 0  # how far the end of the head was looked for
        self._body = 0  # where the body begins; 0 while the head is not complete
        self._length: int | None = None
        self._chunk = 0  # where the next chunk's size stands
        self._decoded = 0  # bytes in the chunks before it

    def feed(self, data: bytes) -> None:
        """Take what has arrived; raises TooLarge."""
        self.received += data
        if not self._body:
            self._read_head()
        if self._body and not self.whole:
            self._look_for_end()

    def _read_head(self) -> None:
        end = self.received.find(END, self._seen)
        self._seen = max(0, len(self.received) - len(END) + 1)
        if (end if end >= 0 else len(self.received)) > LARGEST_HEAD:
            raise TooLarge(431, "Request Header Fields Too Large")
        if end < 0:
            return
        self._body = self._chunk = end + len(END)
        head = bytes(self.received[:end]).lower()
        lengths = LENGTH.findall(head)
        self.waits_for_continue = EXPECTS.search(head) is not None
        if CHUNKED.search(head):
            self.whole = bool(lengths)  # which is never both
        elif len(lengths) == 1 and lengths[0].isdigit() and len(lengths[0]) < len(str(2**63)):
            self._length = int(lengths[0])
            self.whole = self._length > self._largest_body
        else:
            self.whole = True

    def _look_for_end(self) -> None:
        if self._length is not None:
            self.whole = len(self.received) >= self._body + self._length
        else:
            # Sizes and what may follow them count, too: a chunk of one byte takes six, and any number more.
            if len(self.received) - self._body > 2 * self._largest_body + LARGEST_HEAD:
                raise TooLarge(413, "Content Too Large")
            self._read_chunks()

    def _read_chunks(self) -> None:
        """Go from one chunk's size to the next, as far as they are here."""
        while not self.whole:
            line_end = self.received.find(b"\r\n", self._chunk, self._chunk + LONGEST_CHUNK_LINE)
            if line_end < 0:
                self.whole = len(self.received) - self._chunk > LONGEST_CHUNK_LINE
                return
            size = HEX.match(self.received[self._chunk : line_end])
            if size is None:
                self.whole = True
            elif not int(size[1], 16):
                # An empty line ends the trailers, of which there are none as a rule.
                self.whole = self.received.find(END, line_end) >= 0
                if not self.whole and len(self.received) - line_end > LARGEST_HEAD:
                    raise TooLarge(431, "Request Header Fields Too Large")
                return
            else:
                data = line_end + 2
                next_chunk = data + int(size[1], 16) + 2
                here = min(len(self.received), next_chunk - 2) - data
                self.whole = self._decoded + here > self._largest_body
                if next_chunk > len(self.received):
                    return
                self._decoded += here
                self._chunk = next_chunk
