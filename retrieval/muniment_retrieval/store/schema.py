"""Tables of a workspace library and the steps that bring older files forward."""

from __future__ import annotations

from sqlite_utils import Database

from muniment_resources.errors import KnownError

__all__ = ["INDEX_TOKENIZER", "MIGRATIONS", "VERSION", "migrate"]

# The text handed to the index is already folded and cut into tokens; the full stop is part of numbers (1234.5).
INDEX_TOKENIZER = "porter unicode61 remove_diacritics 2 tokenchars ''.''"

# Chunk ids are ``document << 20 | ordinal``: the chunks of a document are one range of row ids, which makes a
# document filter a range scan. A chunk's text is a slice of its page and is not stored twice.
# The full-text table keeps no copy of the text either (content=''); what was inserted is recomputed for a removal.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE document (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            document_id TEXT NOT NULL UNIQUE,
            sha256 TEXT NOT NULL UNIQUE,
            name TEXT NOT NULL,
            title TEXT NOT NULL,
            size_bytes INTEGER NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('reading', 'ready', 'partial', 'rejected')),
            pages INTEGER NOT NULL,
            readable_pages INTEGER NOT NULL DEFAULT 0,
            ocr_pages INTEGER NOT NULL DEFAULT 0,
            reason TEXT,
            reason_params TEXT NOT NULL DEFAULT '{}'
        ) STRICT
        """,
        """
        CREATE TABLE source (
            path TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            document INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE
        ) STRICT
        """,
        "CREATE INDEX source_document ON source (document)",
        """
        CREATE VIEW information AS
        SELECT id, document_id, name,
            coalesce((SELECT path FROM source WHERE document = document.id ORDER BY rowid LIMIT 1), '') AS path,
            sha256, size_bytes, status, pages, readable_pages, ocr_pages, reason, reason_params
        FROM document
        """,
        """
        CREATE TABLE page (
            document INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            label TEXT NOT NULL,
            text TEXT NOT NULL,
            lines BLOB NOT NULL,
            width REAL NOT NULL,
            height REAL NOT NULL,
            error TEXT,
            PRIMARY KEY (document, number)
        ) STRICT
        """,
        """
        CREATE TABLE chunk (
            id INTEGER PRIMARY KEY,
            document INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
            page INTEGER NOT NULL,
            header TEXT NOT NULL,
            first INTEGER NOT NULL,
            last INTEGER NOT NULL
        ) STRICT
        """,
        f"CREATE VIRTUAL TABLE passage USING fts5(header, body, cjk, content='', tokenize='{INDEX_TOKENIZER}')",
        "INSERT INTO passage (passage, rank) VALUES ('secure-delete', 1)",
        "CREATE VIRTUAL TABLE passage_terms USING fts5vocab(passage, row)",
    ),
)

VERSION = len(MIGRATIONS)


def migrate(database: Database) -> None:
    """Bring a library to the newest version; each step is one transaction, so a power cut leaves a whole version.

    Raises:
        KnownError: ``E-STORE-NEWER`` when a later version of the program wrote the file.
    """
    version = int(database.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise KnownError("E-STORE-NEWER")
    for step in range(version, VERSION):
        database.execute("BEGIN IMMEDIATE")
        try:
            for statement in MIGRATIONS[step]:
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {step + 1}")
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise
