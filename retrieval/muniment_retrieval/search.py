"""Finds passages: BM25 over stemmed words and CJK bigrams, with the documents that a question names put first.

Scores: FTS5's BM25 over header, body and bigrams, multiplied by how well the document matches names and years of
the question. ``coverage`` is the share of the question's content terms that stand in a passage or its header, each
weighted by its inverse document frequency ``ln(1 + (N - n + 0.5) / (n + 0.5))``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from muniment_retrieval.model import Box, DocumentInfo, DocumentStatus, Passage
from muniment_retrieval.normalise import cjk_terms, fold, tokens
from muniment_retrieval.store.library import ChunkRow, Library
from muniment_retrieval.store.stemming import Stemmer

__all__ = ["MIN_RELEVANCE", "Query", "Searcher", "match_documents", "parse"]

MIN_RELEVANCE = 0.30
"""Least share of a question's content terms that the best passages must hold together (``Searcher.is_relevant``)."""

_WEIGHTS = (0.6, 1.0, 1.0)
_CANDIDATES = 120
_PER_PAGE = 2
_NAMED_DOCUMENTS = 6
_PHRASE_BOOST = 1.3
_NAME_BOOST = 1.0
_YEAR_BOOST = 0.35

_STOP_TEXT = """
    a about all also an and any are as at be been being between both but by can could did do does done each for from
    give had has have how i if in into is it its itself me might more most much my no not of on only or other our out
    over please same shall should so some such tell than that the their them then there these they this those through
    to under up us was we were what when where whether which while who whom whose why will with would you your
    answer question based explain provide describe using used according following
"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())
_STOP_CJK = re.compile(
    "请问|請問|什么|什麼|怎么样|怎么|怎樣|如何|为什么|為什麼|为何|多少|几个|百分之几|哪些|哪个|哪家|哪里|哪一|是否|有没有|"
    "是什么|是谁|谁|吗|呢|的|了|是|在|和|与|及|或|有|为"
)
_QUOTED = re.compile('["“”「『《]([^"“”「」『』《》]{2,80})["“”」』》]')
_YEAR = re.compile(r"(?<!\d)(?:fy|q[1-4])?\s?((?:19|20)\d\d)(?!\d)")
_QUARTER = re.compile(r"(?<![a-z0-9])q([1-4])(?![a-z0-9])")
_NAME_PART = re.compile(r"[^\W\d_]+|\d+")
_GENERIC_TEXT = """
    annual report quarterly document file scan final draft copy version pdf dated form earnings company inc corp the
    statement statements
"""
_GENERIC_NAMES = frozenset(_GENERIC_TEXT.split())


@dataclass(frozen=True)
class Query:
    """A parsed question.

    Attributes:
        words: Content words and numbers in order, without repetition.
        bigrams: CJK bigrams.
        phrases: Quoted phrases, folded.
        folded: The whole question, folded.
    """

    words: tuple[str, ...]
    bigrams: tuple[str, ...]
    phrases: tuple[str, ...]
    folded: str

    @property
    def is_empty(self) -> bool:
        """Whether the question holds nothing to search for."""
        return not (self.words or self.bigrams)


def parse(question: str) -> Query:
    """Take a question apart into what can be searched for."""
    folded = fold(question)
    words = [word for word in tokens(_QUARTER.sub(r"q\1 ", folded)) if word not in _STOP_WORDS]
    # "FY2017" and "2017Q3" come out as letters and figures; the letters alone say nothing.
    words = [word for word in words if word not in ("fy", "q", "s") and (len(word) > 1 or word.isdigit())]
    bigrams = cjk_terms(_STOP_CJK.sub(" ", folded))
    if not words and not bigrams:
        words, bigrams = tokens(folded), cjk_terms(folded)
    phrases = tuple(fold(match.group(1)) for match in _QUOTED.finditer(question))
    return Query(tuple(dict.fromkeys(words)), tuple(dict.fromkeys(bigrams)), phrases, folded)


def _quoted(term: str) -> str:
    return '"' + term.replace('"', "") + '"'


def _expression(query: Query) -> str:
    """An OR over all terms. Quoting makes every term data, whatever it holds."""
    parts = ["{header body} : " + _quoted(word) for word in query.words]
    parts += ["cjk : " + _quoted(bigram) for bigram in query.bigrams]
    return " OR ".join(parts)


def match_documents(query: Query, documents: Iterable[DocumentInfo]) -> dict[str, float]:
    """Return by document id how well its name matches names and years of the question; 1 means not at all.

    A name part of three letters or more that is not generic (as ``annual``) counts when it stands in the question,
    blanks ignored on both sides: ``AMERICANEXPRESS_2022_10K`` is meant by "American Express". Years only sharpen a
    match by name, or tell documents apart when the question names none.
    """
    squeezed = re.sub(r"[^\w]", "", query.folded).replace("_", "")
    words = set(_NAME_PART.findall(query.folded)) | {squeezed}
    years = set(_YEAR.findall(query.folded))
    factors: dict[str, float] = {}
    for document in documents:
        parts = _NAME_PART.findall(fold(re.sub(r"\.pdf$", "", document.name, flags=re.IGNORECASE).replace("_", " ")))
        names = {part for part in parts if len(part) >= 3 and part.isalpha() and part not in _GENERIC_NAMES}
        named = sum(part in words or (len(part) >= 5 and part in squeezed) for part in names)
        dated = bool(years & {part for part in parts if len(part) == 4})
        factor = 1.0 + (_NAME_BOOST * named / len(names) if named else 0.0)
        if dated:
            factor *= 1.0 + _YEAR_BOOST
        factors[document.document_id] = factor
    return factors


class Searcher:
    """Searches one library.

    Args:
        library: The passages.
        stemmer: Must be of the same kind as the index.
    """

    def __init__(self, library: Library, stemmer: Stemmer) -> None:
        self._library = library
        self._stemmer = stemmer

    def search(self, question: str, k: int = 8, documents: Sequence[str] = ()) -> list[Passage]:
        """Return the best passages, best first, with the boxes of their lines.

        Args:
            question: A question or search words.
            k: Number of passages.
            documents: Limit to these document ids; empty means all.

        Raises:
            KnownError: ``E-DOC-UNKNOWN``.
        """
        query = parse(question)
        if query.is_empty or k <= 0:
            return []
        infos = [info for info in self._library.documents() if info.status is not DocumentStatus.REJECTED]
        factors = match_documents(query, infos)
        scores = self._candidates(query, documents, factors)
        rows = self._library.chunks(list(scores))
        idf = self._idf(query)
        passages = [
            self._passage(row, query, idf, scores[chunk_id] * factors.get(row.document_id, 1.0))
            for chunk_id, row in rows.items()
        ]
        passages.sort(key=lambda passage: (-passage.score, passage.chunk_id))
        return [replace(passage, boxes=self._boxes(passage)) for passage in _diverse(passages, k)]

    def _candidates(self, query: Query, documents: Sequence[str], factors: Mapping[str, float]) -> dict[int, float]:
        expression = _expression(query)
        scopes: list[str | None] = list(documents) if documents else [None]
        if not documents:
            # A named document must get its chance even when others fill the list.
            named = sorted((item for item in factors.items() if item[1] > 1.0), key=lambda item: -item[1])
            scopes += [document_id for document_id, _ in named[:_NAMED_DOCUMENTS]]
        scores: dict[int, float] = {}
        for scope in scopes:
            scores.update(self._library.match(expression, _WEIGHTS, _CANDIDATES, scope))
        return scores

    def _idf(self, query: Query) -> dict[str, float]:
        """Weights of the question's stems and bigrams."""
        stems = [*self._stemmer.stems(query.words), *query.bigrams]
        total = self._library.passage_count()
        counts = self._library.term_counts(dict.fromkeys(stems))
        return {stem: math.log(1 + (total - count + 0.5) / (count + 0.5)) for stem, count in counts.items()}

    def _passage(self, row: ChunkRow, query: Query, idf: Mapping[str, float], score: float) -> Passage:
        folded = fold(f"{row.header}\n{row.text}")
        coverage = _share(idf, self._terms(folded, row.document))
        if any(phrase in folded for phrase in query.phrases):
            score *= _PHRASE_BOOST
        return Passage(
            chunk_id=row.chunk_id,
            document_id=row.document_id,
            document=row.document,
            page=row.page,
            label=row.label,
            header=row.header,
            text=row.text,
            start=row.start,
            score=score,
            coverage=coverage,
        )

    def _terms(self, folded: str, document: str) -> set[str]:
        """Return the index terms of a passage and of its file name, the only place where company and year may stand."""
        words = tokens(folded) + tokens(fold(re.sub(r"[_\-.]", " ", document)))
        return {*self._stemmer.stems(dict.fromkeys(words)), *cjk_terms(folded)}

    def relevance(self, question: str, passages: Sequence[Passage]) -> float:
        """Return the share of the question's content terms that the passages hold together, rare terms weighing more.

        A long question is never covered by one short passage, but the best passages together hold its terms when
        the documents speak of the matter at all; words that stand in no document weigh most.
        """
        idf = self._idf(parse(question))
        present: set[str] = set()
        for passage in passages:
            present |= self._terms(fold(f"{passage.header}\n{passage.text}"), passage.document)
        return _share(idf, present)

    def is_relevant(self, question: str, passages: Sequence[Passage]) -> bool:
        """Whether the documents touch the question at all; if not, no model needs to be asked."""
        return self.relevance(question, passages) >= MIN_RELEVANCE

    def _boxes(self, passage: Passage) -> tuple[Box, ...]:
        return tuple(line.box for line in self._library.chunk_lines(passage.chunk_id))


def _share(idf: Mapping[str, float], present: Collection[str]) -> float:
    whole = sum(idf.values())
    return sum(weight for term, weight in idf.items() if term in present) / whole if whole > 0 else 0.0


def _diverse(passages: Sequence[Passage], k: int) -> list[Passage]:
    """Return the best ``k`` with at most two from one page."""
    chosen: list[Passage] = []
    per_page: dict[tuple[str, int], int] = {}
    for passage in passages:
        key = (passage.document_id, passage.page)
        if per_page.get(key, 0) < _PER_PAGE:
            per_page[key] = per_page.get(key, 0) + 1
            chosen.append(passage)
            if len(chosen) == k:
                break
    return chosen
