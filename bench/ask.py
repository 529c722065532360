"""One question from search to checked answer, with the starter model on the sample documents.

``ttft_overhead_s`` is the time to the first word minus the pure evaluation of the prompt inside the model, with a
warm model: search, planning, audit records, counting tokens, pipes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.common import Report, Settings, percentile, run
from muniment_app.bootstrap import build_services
from muniment_app.services.api import Answer, AnswerStatus, AskRequest, Services
from muniment_app.workspace.paths import Home
from muniment_resources.samples import facts, sample_paths

__all__ = ["measure"]


def _ask(services: Services, question: str) -> Answer:
    return services.ask.ask(AskRequest(question), lambda _event: None, lambda: False)


def measure(settings: Settings, report: Report) -> None:
    """Take the samples."""
    questions = [fact for fact in facts() if fact.page is not None]
    questions = questions[:: max(1, len(questions) // 8)] if settings.quick else questions
    with tempfile.TemporaryDirectory() as folder:
        services = build_services(Home(Path(folder) / "home"), "bench")
        try:
            starter = next(model for model in services.models.list() if model.starter)
            services.models.add(starter.model_id, lambda _done, _total: None, lambda: False)
            services.index.index(sample_paths(), lambda _p: None, lambda _name, _wrong: None, lambda: False)
            cold = _ask(services, questions[0].question)
            warm = [(fact, _ask(services, fact.question)) for fact in questions]
        finally:
            services.close()
    called = [(fact, answer) for fact, answer in warm if answer.usage.completion_tokens]
    answered = [(fact, answer) for fact, answer in called if answer.status is AnswerStatus.ANSWERED]
    overheads_s = [answer.timings.ttft_s - answer.timings.prefill_s for _, answer in called]
    n = len(called)
    report.add("load_s_cold", cold.timings.load_s, 1)
    report.add("ttft_s_cold", cold.timings.ttft_s, 1)
    report.add("retrieve_s_p50", percentile([a.timings.retrieve_s for _, a in warm], 50), len(warm))
    report.add("ttft_s_p50", percentile([a.timings.ttft_s for _, a in called], 50), n)
    report.add("ttft_s_p95", percentile([a.timings.ttft_s for _, a in called], 95), n)
    report.add("tpot_s_p50", percentile([a.timings.tpot_s for _, a in called], 50), n)
    report.add("ttft_overhead_s_p50", percentile(overheads_s, 50), n)
    report.add("ttft_overhead_s_p95", percentile(overheads_s, 95), n)
    report.add("prompt_tokens_p50", percentile([a.usage.prompt_tokens for _, a in called], 50), n)
    report.add("answered_share", len(answered) / len(warm), len(warm))
    if answered:
        right = sum(any(c.page == fact.page for c in answer.citations) for fact, answer in answered)
        report.add("cited_page_right", right / len(answered), len(answered))


if __name__ == "__main__":
    raise SystemExit(run("ask", measure, ("llama-cpp-python", "sqlcipher3")))
