"""Frame a stream of bytes into lines, however long a line and however small the chunks."""


class LineSplitter:
    """Collects chunks and gives back whole lines.

    Each byte is looked at once and copied at most twice, so an object of many megabytes that
    comes in small chunks costs no more per byte than a small one.
    """

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk; return the lines it completes, without line feed, empty ones dropped."""
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._begun.append(chunk)
            return []
        self._begun.append(lines[0])
        lines[0] = b"".join(self._begun)
        self._begun = [lines.pop()]
        return [line for line in lines if line]
