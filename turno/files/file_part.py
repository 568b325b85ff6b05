"""Some bytes of an open file, as a WSGI server sends them: by its descriptor if it can, else by reading."""

import io


class FilePart:
    """From `start` up to `stop`; closing it closes the file."""

    def __init__(self, file: io.BufferedReader, start: int, stop: int) -> None:
        self._file = file
        self._left = stop - start
        file.seek(start)

    def fileno(self) -> int:
        """Return the descriptor, which stands at the first byte."""
        return self._file.fileno()

    def read(self, size: int) -> bytes:
        """Return the next bytes, none at the end."""
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()
