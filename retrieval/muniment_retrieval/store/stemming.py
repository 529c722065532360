"""Stems words exactly as the full-text index does, by asking a small index of the same kind in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import sqlcipher3.dbapi2 as sqlcipher

from muniment_retrieval.store.schema import INDEX_TOKENIZER

__all__ = ["Stemmer"]

_MAX_WORDS = 50_000


class Stemmer:
    """Maps words to index terms. Known words are kept, up to a bound. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        self._connection = sqlcipher.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._connection.execute(
            f"CREATE VIRTUAL TABLE word USING fts5(form, content='', tokenize='{INDEX_TOKENIZER}')"
        )
        self._connection.execute("CREATE VIRTUAL TABLE term USING fts5vocab(word, instance)")

    def close(self) -> None:
        """Free the index."""
        with self._lock:
            self._connection.close()

    def stems(self, words: Iterable[str]) -> list[str]:
        """Return the index term of each word (a token without blanks), in order."""
        words = list(words)
        with self._lock:
            if len(self._known) > _MAX_WORDS:
                self._known.clear()
            new = list(dict.fromkeys(word for word in words if word not in self._known))
            if new:
                self._connection.execute("INSERT INTO word (form) VALUES (?)", (" ".join(new),))
                rows = self._connection.execute("SELECT term, offset FROM term").fetchall()
                self._connection.execute("INSERT INTO word (word) VALUES ('delete-all')")
                found = {int(offset): str(term) for term, offset in rows}
                # A word that the tokeniser drops or splits would shift what follows: then take them one by one.
                if len(found) == len(new):
                    self._known.update((word, found[index]) for index, word in enumerate(new))
                else:
                    self._known.update((word, word) for word in new)
            return [self._known[word] for word in words]
