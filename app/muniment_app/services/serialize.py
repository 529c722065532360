"""The JSON shapes of the command-line contract (docs/architecture.md), from service results."""

from __future__ import annotations

from collections.abc import Sequence

from muniment_app.services.api import Answer, AuditEvent, AuditReport, ModelInfo
from muniment_retrieval.model import Citation, DocumentInfo, Evidence, Passage

__all__ = [
    "answer_json",
    "audit_event_json",
    "audit_report_json",
    "document_json",
    "index_json",
    "model_json",
    "passage_json",
    "search_json",
]

Json = dict[str, object]


def _boxes(boxes: Sequence[tuple[float, float, float, float]]) -> list[list[float]]:
    return [[round(value, 2) for value in box] for box in boxes]


def document_json(document: DocumentInfo) -> Json:
    """One record of ``index --json`` and ``documents --json``."""
    return {
        "document": document.name,
        "id": document.document_id,
        "status": document.status.value,
        "pages": document.pages,
        "readable_pages": document.readable_pages,
        "ocr_pages": document.ocr_pages,
        "reason": document.reason,
    }


def index_json(documents: Sequence[DocumentInfo]) -> Json:
    """The object of ``index --json`` and ``documents --json``."""
    return {"documents": [document_json(document) for document in documents]}


def passage_json(passage: Passage) -> Json:
    """One passage of ``search --json``."""
    return {
        "document": passage.document,
        "id": passage.document_id,
        "page": passage.page,
        "text": passage.text,
        "score": round(passage.score, 4),
        "boxes": _boxes(passage.boxes),
    }


def search_json(passages: Sequence[Passage]) -> Json:
    """The object of ``search --json``."""
    return {"passages": [passage_json(passage) for passage in passages]}


def _citation_json(citation: Citation) -> Json:
    return {
        "n": citation.n,
        "document": citation.document,
        "id": citation.document_id,
        "page": citation.page,
        "quote": citation.quote,
        "boxes": _boxes(citation.boxes),
        "support": citation.support.value,
    }


def _evidence_json(evidence: Evidence) -> Json:
    return {
        "document": evidence.passage.document,
        "page": evidence.passage.page,
        "score": round(evidence.passage.score, 4),
        "used": evidence.used,
    }


def answer_json(answer: Answer) -> Json:
    """The object of ``ask --json``."""
    plan = answer.plan
    return {
        "status": answer.status.value,
        "reason": answer.reason,
        "answer": answer.answer,
        "sentences": [
            {"text": s.text, "support": s.support.value, "citations": list(s.citations)} for s in answer.sentences
        ],
        "citations": [_citation_json(citation) for citation in answer.citations],
        "evidence": [_evidence_json(evidence) for evidence in answer.evidence],
        "nearest": [passage_json(passage) for passage in answer.nearest],
        "left_out": answer.left_out,
        "plan": None
        if plan is None
        else {
            "model": plan.model,
            "quantization": plan.quantization,
            "context": plan.context,
            "kv_type": plan.kv_type,
            "sequences": plan.sequences,
            "rung": plan.rung,
            "reason": plan.reason,
            "need_bytes": plan.need_bytes,
            "headroom_bytes": plan.headroom_bytes,
        },
        "timings": {
            "retrieve_s": round(answer.timings.retrieve_s, 4),
            "load_s": round(answer.timings.load_s, 4),
            "prefill_s": round(answer.timings.prefill_s, 4),
            "ttft_s": round(answer.timings.ttft_s, 4),
            "tpot_s": round(answer.timings.tpot_s, 4),
            "total_s": round(answer.timings.total_s, 4),
        },
        "usage": {
            "prompt_tokens": answer.usage.prompt_tokens,
            "completion_tokens": answer.usage.completion_tokens,
        },
        "audit": {"seq": answer.audit.seq, "leaf": answer.audit.leaf},
    }


def model_json(model: ModelInfo) -> Json:
    """One record of ``models list --json``, and the object of ``models requantize --json``."""
    return {
        "model": model.model_id,
        "family": model.family,
        "quantization": model.quantization,
        "bytes": model.size_bytes,
        "languages": list(model.languages),
        "licence": model.licence,
        "installed": model.installed,
        "starter": model.starter,
        "base": model.base,
    }


def audit_event_json(event: AuditEvent) -> Json:
    """One record of ``audit show --json``."""
    return {
        "seq": event.seq,
        "ts": event.ts,
        "type": event.type,
        "leaf": event.leaf,
        "fields": dict(event.fields),
        "opened": dict(event.opened),
    }


def audit_report_json(report: AuditReport) -> Json:
    """The object of ``audit verify --json``."""
    return {
        "ok": report.ok,
        "events": report.events,
        "checkpoints": report.checkpoints,
        "first_bad": report.first_bad,
        "redacted": report.redacted,
        "problem": report.problem,
    }
