"""What servers that speak the chat-completions format really answer, and what is made of it.

Bodies have the fields that each server gives, the texts are our own. A completion comes to the
note of the object that is taken from it, or to REFUSED, which asks the model again. An error comes
to what is done about it: the same request again, another without a field, or an end that names
what helps.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from corpus_kit import FOLDER, Case

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import ContextOverflow, EndpointError, ReplyError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.structured import ask
from hpcscientist.records.authoring import CodeReply
from hpcscientist.records.model_calls import Message, ModelRequest

sys.path.insert(0, str(FOLDER.parent))

from misbehaving_endpoint import Endpoint, answer

REFUSED, AGAIN = "refused", "again"
REQUEST = ModelRequest(
    subject="idea-0001",
    stage="code",
    messages=(Message(role="user", content="Write it."),),
    schema_name="CodeReply",
    reply_schema=CodeReply.model_json_schema(),
    seed=7,
)
QUICK = ClientSettings(retries=1, backoff_s=0.001, backoff_max_s=0.002)


def obj(note: str, **more: Any) -> str:
    return json.dumps({"note": note, "edits": [], **more})


RIGHT, DRAFT = obj("right"), obj("draft")
ODD = json.dumps({"note": "odd", "edits": [{"file": "a.py"}]})  # an edit without its new text


def completion(
    message: dict[str, Any], finish: str | None = "stop", usage: Any = None, **more: Any
) -> dict[str, Any]:
    """A body as all servers give it; `more` are fields of its own."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    counts = {"prompt_tokens": 11, "completion_tokens": 9, "total_tokens": 20}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1760000000,
        "model": "m",
        "choices": [{**choice, **more.pop("choice", {})}],
        "usage": usage or counts,
        **more,
    }


def vllm(content: str | None, reasoning: str | None = None, finish: str = "stop") -> dict[str, Any]:
    message = {
        "content": content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "tool_calls": [],
        "reasoning": reasoning,
        "reasoning_content": reasoning,
    }
    choice = {"logprobs": None, "stop_reason": None, "token_ids": None}
    own = {"service_tier": None, "prompt_logprobs": None, "kv_transfer_params": None}
    return completion(message, finish, choice=choice, **own)


def sglang(content: str | None, reasoning: str | None = None, **more: Any) -> dict[str, Any]:
    message = {"content": content, "reasoning_content": reasoning, "tool_calls": None}
    choice = {"logprobs": None, "matched_stop": 151645}
    usage = {"prompt_tokens": 11, "total_tokens": 20, "completion_tokens": 9, "reasoning_tokens": 0}
    own = {"metadata": {"weight_version": "default"}}
    return completion(message, usage=usage, choice=choice, **own, **more)


def llama_cpp(content: str, reasoning: str | None = None, finish: str = "stop") -> dict[str, Any]:
    message = {"content": content} | ({"reasoning_content": reasoning} if reasoning else {})
    own = {"system_fingerprint": "b7139-1a2b", "timings": {"prompt_n": 11, "predicted_n": 9}}
    return completion(message, finish, **own)


def ollama(content: str, reasoning: str | None = None) -> dict[str, Any]:
    message = {"content": content} | ({"reasoning": reasoning} if reasoning else {})
    return completion(message, system_fingerprint="fp_ollama")


def lm_studio(content: str, **message: Any) -> dict[str, Any]:
    choice = {"logprobs": None}
    message = {"content": content, "tool_calls": [], **message}
    return completion(message, choice=choice, stats={}, system_fingerprint="m")


def tgi(content: str, finish: str = "stop") -> dict[str, Any]:
    return completion({"content": content}, finish, system_fingerprint="3.3.6-sha-1a2b3c4")


Row = tuple[str, str, dict[str, Any], str]


def placed() -> Iterator[Row]:
    """The answer where it belongs, or where a server puts it in its place."""
    yield "plain", "vLLM", vllm(RIGHT), "right"
    yield "fenced", "vLLM without guided decoding", vllm(f"```json\n{RIGHT}\n```"), "right"
    yield "reasoning-apart", "vLLM --reasoning-parser", vllm(RIGHT, f"Maybe {DRAFT}?"), "right"
    yield "null-content", "vLLM, enable_thinking false", vllm(None, RIGHT), "right"
    yield (
        "null-content-thought",
        "vLLM deepseek_r1",
        vllm(None, f"Say {DRAFT}. No. {RIGHT}"),
        ("right"),
    )
    yield "null-content-cut-off", "vLLM", vllm(None, f"Maybe {DRAFT}", "length"), REFUSED
    yield "null-content-prose", "vLLM", vllm(None, "I do not know."), REFUSED
    yield "empty-content", "SGLang", sglang("", RIGHT), "right"
    yield "json-in-reasoning", "SGLang 0.5.6, thinking off", sglang(None, f"{RIGHT}\n"), "right"
    yield "odd-content", "SGLang", sglang(ODD, DRAFT), REFUSED
    yield "plain-llama", "llama.cpp", llama_cpp(RIGHT), "right"
    yield (
        "reasoning-llama",
        "llama.cpp --reasoning-format",
        llama_cpp(RIGHT, f"So {DRAFT}"),
        ("right"),
    )
    yield "raw-reasoning", "llama.cpp none", llama_cpp(f"<think>{DRAFT}</think>\n{RIGHT}"), "right"
    yield "reasoning-ollama", "Ollama", ollama(RIGHT, f"So {DRAFT}"), "right"
    yield "empty-ollama", "Ollama with a format", ollama("", f"{RIGHT}"), "right"
    yield "no-reasoning", "TGI", tgi(f"{DRAFT}\n</think>\n\n{RIGHT}"), "right"
    yield "length-tgi", "TGI", tgi(RIGHT[:20], "length"), REFUSED
    yield "reasoning-studio", "LM Studio", lm_studio(RIGHT, reasoning_content=DRAFT), "right"
    yield "reasoning-studio-2", "LM Studio", lm_studio("", reasoning=RIGHT), "right"
    deploy = completion({"content": RIGHT, "gen_tokens": None, "reasoning_content": "hm"})
    yield "deploy", "LMDeploy", deploy, "right"
    trt = {"content": RIGHT, "reasoning_content": None, "reasoning": None, "tool_calls": []}
    yield "trt", "TensorRT-LLM", completion(trt, prompt_token_ids=None), "right"
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": DRAFT}], "closed": True},
        {"type": "text", "text": RIGHT},
    ]
    yield "parts", "Mistral", completion({"content": parts}), "right"
    texts = [{"type": "text", "text": RIGHT[:9]}, {"type": "text", "text": RIGHT[9:]}]
    yield "text-in-parts", "LiteLLM", completion({"content": texts}), "right"
    reasoned = [{"type": "reasoning", "text": DRAFT}, {"type": "text", "text": RIGHT}]
    yield "reasoning-part", "Databricks", completion({"content": reasoned}), "right"
    blocks = [{"type": "thinking", "thinking": RIGHT, "signature": "x"}]
    yield "blocks", "LiteLLM", completion({"content": None, "thinking_blocks": blocks}), "right"
    details = [{"type": "reasoning.text", "text": RIGHT, "format": "unknown", "index": 0}]
    message = {"content": "", "reasoning": None, "reasoning_details": details}
    yield "details", "OpenRouter", completion(message, provider="X"), "right"
    call = {"id": "call_1", "type": "function"}
    call["function"] = {"name": "json_tool_call", "arguments": RIGHT}  # type: ignore[assignment]
    yield (
        "tool",
        "LiteLLM",
        completion({"content": None, "tool_calls": [call]}, "tool_calls"),
        ("right"),
    )
    parsed = {"function": {"name": "f", "arguments": json.loads(RIGHT)}, "type": "function"}
    yield "tool-parsed", "TGI 2", completion({"content": None, "tool_calls": [parsed]}), "right"
    yield "refusal", "OpenAI", completion({"content": None, "refusal": "No."}), REFUSED
    groq = completion({"content": RIGHT, "reasoning": DRAFT}, x_groq={"id": "req_1"})
    yield "groq", "Groq", groq, "right"
    filters = {"content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}
    yield "filters", "Azure", completion({"content": RIGHT}, choice=filters), "right"
    yield "no-usage", "llama-cpp-python", {**ollama(RIGHT), "usage": None}, "right"


def wrapped() -> Iterator[Row]:
    """An object within another, or nearly JSON, from models that no schema binds."""
    call = f'{{"name": "CodeReply", "arguments": {RIGHT}}}'
    yield "call-in-content", "Hermes", vllm(f"<tool_call>\n{call}\n</tool_call>"), "right"
    llama = f'{{"type": "function", "name": "f", "parameters": {RIGHT}}}'
    yield "call-of-llama", "Llama 3.1", vllm(llama), "right"
    nested = f'{{"type": "function", "function": {call}}}'
    yield "call-of-function", "Qwen2.5", vllm(nested), "right"
    yield "by-its-name", "Mistral 7B", vllm(f'```json\n{{"CodeReply": {RIGHT}}}\n```'), "right"
    schema = f'{{"title": "CodeReply", "type": "object", "properties": {RIGHT}}}'
    yield "as-a-schema", "Llama 3.2", vllm(schema), "right"
    yield "wrapped-odd", "Mistral 7B", vllm(f'{{"CodeReply": {ODD}}}'), REFUSED
    yield "wrapped-two", "small models", vllm(f'{{"a": {DRAFT}, "b": {RIGHT}}}'), REFUSED
    yield "last-comma", "Llama 3.2", vllm(f"{RIGHT[:-1]},\n}}"), "right"


def marked() -> Iterator[Row]:
    """Reasoning that a server was not told to keep apart."""
    pairs = {
        "think": ("<think>", "</think>", "Qwen3, DeepSeek-R1, GLM-4.5, MiniMax-M2"),
        "think-line": ("<think>\n", "\n</think>\n\n", "Nemotron"),
        "seed": ("<seed:think>", "</seed:think>", "Seed-OSS"),
        "mm": ("<mm:think>", "</mm:think>", "MiniMax-M3"),
        "longcat": ("<longcat_think>", "</longcat_think>", "LongCat-Flash-Thinking"),
        "thinking": ("<thinking>", "</thinking>", "prompted models"),
        "thought": ("<Thought>", "</Thought>\n<Output>", "Marco-o1"),
        "reasoning": ("<reasoning>", "</reasoning>\n<answer>", "models of GRPO tutorials"),
        "mistral": ("[THINK]", "[/THINK]", "Magistral 1.1"),
        "kimi": ("◁think▷", "◁/think▷", "Kimi-VL"),
        "kimi-3": ("<|open|>think<|sep|>", "<|close|>think<|sep|>", "Kimi-K3"),
        "cohere": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>", "Command A"),
        "sky": ("<|begin_of_thought|>", "<|end_of_thought|>\n<|begin_of_solution|>", "Sky-T1"),
        "solar": ("<|think:start|>", "<|think:end|>", "Solar Open 2"),
        "apertus": ("<|inner_prefix|>", "<|inner_suffix|>", "Apertus"),
        "gemma": ("<|channel>thought\n", "<channel|>", "Gemma 4"),
        "medgemma": ("<unused94>thought\n", "<unused95>", "MedGemma"),
        "pangu": ("[unused16]", "[unused17]", "openPangu"),
        "inkling": ("<|content_thinking|>", "<|end_message|><|content_text|>", "Inkling"),
        "granite": ("Here is my thought process:\n", "\nHere is my response:\n", "Granite 3.2"),
        "analysis": (
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>",
            "gpt-oss",
        ),
        "constrain": (
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final <|constrain|>JSON<|message|>",
            "gpt-oss, LM Studio",
        ),
        "final-json": (
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final json<|message|>",
            "gpt-oss-20b",
        ),
        "no-header": ("<|channel|>analysis<|message|>", "<|end|>", "gpt-oss, llama.cpp"),
        "bare": ("analysisWe need JSON. ", "assistantfinal", "gpt-oss, special tokens skipped"),
    }
    for name, (before, after, model) in pairs.items():
        thought = f"{before}I could say {DRAFT}. Better not.{after}"
        yield f"{name}", model, vllm(f"{thought}{RIGHT}"), "right"
        yield f"{name}-odd", model, vllm(f"{thought}{ODD}"), REFUSED
        yield (
            f"{name}-cut-off",
            model,
            vllm(f"{before}I could say {DRAFT}", finish="length"),
            (REFUSED),
        )
    yield "after-a-word", "Qwen3", vllm(f"Okay. <think>{DRAFT}</think>{RIGHT}"), "right"
    yield "close-alone", "DeepSeek-R1", vllm(f"{DRAFT} or so </think>{RIGHT}"), "right"
    yield "closed-twice", "QwQ", vllm(f"<think>{DRAFT}</think>no {DRAFT}</think>{RIGHT}"), "right"
    yield "two-thoughts", "QwQ", vllm(f"<think>a</think>{DRAFT}<think>b</think>{RIGHT}"), "right"
    yield "never-closed", "Qwen3, guided decoding", vllm(f"<think>\n{RIGHT}"), "right"
    yield "nothing-after", "Qwen3", vllm(f"<think>{RIGHT}</think>"), "right"
    quoted = obj("right", edits=[{"file": "a.py", "replace": "x = '</think>' + '<think>'"}])
    yield "mark-in-answer", "any", vllm(f"<think>{DRAFT}</think>{quoted}"), "right"
    yield "mark-in-answer-alone", "any", vllm(quoted), "right"
    preamble = f"<|channel|>commentary<|message|>{DRAFT}<|end|><|start|>assistant"
    yield "commentary", "gpt-oss", vllm(f"{preamble}<|channel|>final<|message|>{RIGHT}"), "right"
    yield "sorry", "Llama 3", vllm(f"{DRAFT}\n\nSorry, corrected:\n\n{RIGHT}"), "right"
    yield (
        "no-tags",
        "R1 distilled",
        vllm(f"First {DRAFT}. Hmm. So:\n```json\n{RIGHT}\n```"),
        "right",
    )
    yield (
        "said-again",
        "small models",
        vllm(f"{RIGHT}\n{RIGHT}\n{RIGHT[:15]}", finish="length"),
        ("right"),
    )
    torn = vllm(f"{DRAFT}\nNo:\n{RIGHT[:15]}", finish="length")
    yield "correction-cut-off", "Llama 3", torn, REFUSED


# Name, what writes it, status, body, what is done.
Error = tuple[str, str, int, Any, str]
SAID = {"object": "error", "type": "BadRequestError", "param": None, "code": 400}
LITE = "litellm.UnsupportedParamsError: x does not support parameters: ['{}']"
FIELD = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}


def openai(message: str, **more: Any) -> dict[str, Any]:
    """An error in the format that most servers share."""
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


def schemas() -> Iterator[Error]:
    """Refusals of the schema."""
    without_schema = "without response_format"
    schema = "The provided JSON schema contains features not supported by xgrammar."
    yield "xgrammar", "vLLM 0.8", 400, SAID | {"message": schema}, without_schema
    keys = 'Grammar error: Unimplemented keys: ["uniqueItems"]'
    yield "guidance", "vLLM 0.9", 400, openai(keys, code=400), without_schema
    yield "guidance-500", "vLLM", 500, openai(keys, code=500), without_schema
    guided = "Failed to convert JSON schema to regex: Unsupported JSON Schema structure"
    yield "outlines", "vLLM 0.6", 400, SAID | {"message": guided}, without_schema
    yield "not-implemented", "vLLM", 501, openai("not supported yet", code=501), without_schema
    samplers = "Failed to initialize samplers: failed to parse grammar"
    yield "samplers", "llama.cpp", 400, openai(samplers, code=400), without_schema
    ref = "JSON schema conversion failed:\nUnrecognized schema: {}"
    yield "conversion", "llama.cpp", 400, openai(ref, code=400), without_schema
    kind = 'response_format type must be one of "text" or "json_object", but got: json_schema'
    yield "type", "ik_llama.cpp", 500, openai(kind, code=500), without_schema
    tgi = {"error": "Input validation error: grammar is not valid: no 'properties'"}
    yield "grammar", "TGI", 422, tgi | {"error_type": "validation"}, without_schema
    regex = {"error": "Input validation error: cannot compile regex from schema: bad"}
    yield "regex", "TGI", 422, regex | {"error_type": "validation"}, without_schema
    off = {"error": "Input validation error: grammar is not supported"}
    yield "no-grammar", "TGI --disable-grammar-support", 422, off, without_schema
    sgl = {"object": "error", "message": "Failed to compile json grammar: no", "code": 400}
    yield "compile", "SGLang", 400, sgl, without_schema
    backend = openai("Grammar backend is none; structured output is disabled")
    yield "no-backend", "SGLang --grammar-backend none", 400, backend, without_schema
    setup = "Request is specified with GuidedDecodingParams, but GuidedDecoder is not setup."
    yield "decoder", "TensorRT-LLM", 400, {"object": "error", "message": setup}, without_schema
    studio = {"error": "'response_format.type' must be 'text'"}
    yield "studio", "LM Studio 0.3", 400, studio, without_schema
    lite = LITE.format("response_format")
    yield "lite", "LiteLLM", 400, openai(lite, code="400"), without_schema
    deep = "This response_format type is unavailable now"
    yield "unavailable", "DeepSeek", 400, openai(deep), without_schema
    strict = "Invalid schema for response_format 'CodeReply': 'additionalProperties' is required"
    yield "strict", "OpenAI", 400, openai(strict, param="response_format"), without_schema
    extra = FIELD | {"loc": ["body", "response_format"]}
    yield "extra", "FastAPI", 422, {"detail": [extra]}, without_schema
    ollama = openai("failed to load model vocabulary required for format; invalid JSON schema")
    yield "ollama", "Ollama", 500, ollama, without_schema


def named_beside() -> Iterator[Error]:
    """Refusals that name the field only beside the message, or by another name."""
    without_schema = "without response_format"
    objects = "Object fields require at least one of: 'properties' or 'anyOf'"
    said = {"message": objects, "type": "invalid_request_error", "param": "response_format"}
    yield "param", "Cerebras", 400, said, without_schema
    yield (
        "param-within",
        "OpenAI",
        400,
        openai("Invalid type", param="response_format"),
        (without_schema),
    )
    yield "param-seed", "OpenAI", 400, openai("Unknown parameter", param="seed"), "without seed"
    yield "param-top-p", "OpenAI", 400, openai("Out of range", param="top_p"), "set top_p"
    states = "The specified schema produces a constraint that has too many states for serving."
    yield "states", "Gemini", 400, [{"error": {"code": 400, "message": states}}], without_schema
    lacks = "Unable to submit request because `response_schema` didn't specify the type field."
    yield "field", "Vertex AI", 400, [{"error": {"code": 400, "message": lacks}}], without_schema
    bounds = "output_format.schema: For 'integer' type, 'maximum' is not supported"
    yield (
        "bounds",
        "Anthropic",
        400,
        {"type": "error", "error": {"message": bounds}},
        (without_schema),
    )


def fields() -> Iterator[Error]:
    """Refusals of other fields, or of their values."""
    newer = "without max_tokens"
    gone = "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    gone += "'max_completion_tokens' instead."
    yield "max-tokens", "OpenAI", 400, openai(gone, code="unsupported_parameter"), newer
    field = FIELD | {"loc": ["body", "max_tokens"]}
    yield "max-tokens-extra", "FastAPI", 422, {"detail": [field]}, newer
    yield "max-tokens-lite", "LiteLLM", 400, openai(LITE.format("max_tokens")), newer
    yield "seed", "LiteLLM, Anthropic", 400, openai(LITE.format("seed")), "without seed"

    large = "max_tokens is too large: 99999. This model supports at most 16384 completion tokens"
    yield "large", "OpenAI", 400, openai(large), "set max_tokens"
    window = "`max_tokens` must be less than or equal to `32768`, less than the `context_window`"
    yield "groq", "Groq", 400, openai(window), "set max_tokens"
    valid = "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"
    yield "range", "DeepSeek", 400, openai(valid), "set max_tokens"
    many = {"error": "Input validation error: `max_new_tokens` must be <= 512. Given: 4096"}
    yield "new-tokens", "TGI", 422, many, "set max_tokens"
    top = {"error": "Input validation error: `top_p` must be > 0.0 and < 1.0"}
    yield "top-p", "TGI", 422, top | {"error_type": "validation"}, "set top_p"

    hot = "temperature must be non-negative"
    yield "bad-temperature", "vLLM", 400, openai(hot), "set temperature"


def ends() -> Iterator[Error]:
    """Prompts that are too long, servers that fail, and what nothing helps."""
    long = "This model's maximum context length is 4096 tokens. However, your prompt contains "
    yield "context", "vLLM", 400, SAID | {"message": f"{long}5000 input tokens"}, "context 4096"
    total = "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
    total += "Given: 5000 `inputs` tokens and 1000 `max_new_tokens`"
    yield "total", "TGI", 422, {"error": total}, "context 4096"
    only = "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"
    yield "inputs", "TGI", 422, {"error": only}, "context 4096"
    slot = "request (5000 tokens) exceeds the available context size (4096 tokens)"
    yield "slot", "llama.cpp", 400, openai(slot, type="exceed_context_size_error"), "context 4096"
    size = "the request exceeds the available context size, try increasing it"
    counts = {"n_prompt_tokens": 5000, "n_ctx": 4096}
    yield "slot-beside", "llama.cpp b6400", 400, openai(size, **counts), "context 4096"
    most = "Prompt contains 5000 tokens and 0 draft tokens, too large for model with 4096 maximum "
    yield "most", "Mistral", 400, SAID | {"message": f"{most}context length"}, "context 4096"
    sums = "The sum of prompt length (5000), query length (0) should not exceed max_num_tokens "
    yield "sum", "TensorRT-LLM", 400, SAID | {"message": f"{sums}(4096)"}, "context 4096"
    more = {"type": "error", "error": {"message": "prompt is too long: 5000 tokens > 4096 maximum"}}
    yield "more", "Anthropic", 400, more, "context 4096"
    count = "The input token count (5000) exceeds the maximum number of tokens allowed (4096)."
    yield "count", "Gemini", 400, [{"error": {"code": 400, "message": count}}], "context 4096"
    loaded = "the model is loaded with context length of only 4096 tokens, which is not enough"
    yield "loaded", "LM Studio", 400, {"error": loaded}, "context 4096"

    out = {"error": "Request failed during generation: Server error: CUDA out of memory"}
    yield "generation", "TGI", 424, out | {"error_type": "generation"}, AGAIN
    yield "overloaded", "TGI", 429, {"error": "Model is overloaded"}, AGAIN
    yield "loading", "llama.cpp", 503, openai("Loading model", code=503), AGAIN
    yield "plain-500", "LMDeploy", 500, b"Internal Server Error", AGAIN
    dead = {"object": "error", "message": "EngineCore encountered an issue", "code": 500}
    yield "engine", "vLLM", 500, dead, AGAIN
    yield "gateway", "nginx", 502, b"<html><h1>502 Bad Gateway</h1></html>", AGAIN
    yield "error-200", "OpenRouter", 200, openai("Provider returned error", code=502), AGAIN
    yield "error-200-flat", "FastChat", 200, dead | {"code": 50002}, AGAIN
    half = completion({"content": ""}, "error", choice={"error": {"message": "lost", "code": 502}})
    yield "error-in-choice", "OpenRouter", 200, half, AGAIN
    yield "aborted", "SGLang", 200, completion({"content": ""}, "abort"), AGAIN
    yield "key", "vLLM", 401, {"error": "Unauthorized"}, "key"
    yield "forbidden", "LiteLLM", 403, openai("team not allowed to access model"), "key"
    yield "redirect", "a proxy", 307, b"", "address"
    yield "unsupported", "a proxy", 505, b"", "log"
    yield "bad-message", "vLLM", 400, SAID | {"message": "roles must alternate"}, "log"


def taken(body: dict[str, Any]) -> Callable[[], object]:
    """Return the note of the object that is taken from a completion."""

    async def read() -> object:
        async with Endpoint() as endpoint:
            endpoint.script = [answer(body)]
            model = OpenAIModel(endpoint.url, "m", QUICK)
            try:
                return (await ask(model, REQUEST, CodeReply, repairs=0)).note
            except ReplyError:
                return REFUSED
            finally:
                await model.close()

    return lambda: asyncio.run(read())


def done(status: int, body: Any) -> Callable[[], object]:
    """Return what is done about an error."""

    async def read() -> object:
        async with Endpoint() as endpoint:
            endpoint.script = [answer(body, status), answer(vllm(RIGHT))]
            model = OpenAIModel(endpoint.url, "m", QUICK)
            try:
                await model.complete(REQUEST)
                return _compared(endpoint)
            except ContextOverflow as error:
                return f"context {error.context}"
            except (ReplyError, EndpointError) as error:
                return next((word for word in _FIXES if word in str(error)), str(error))
            finally:
                await model.close()

    return lambda: asyncio.run(read())


_FIXES = ("set max_tokens", "set temperature", "set top_p", "address", "key", "log")


def _compared(endpoint: Endpoint) -> str:
    first, second = (seen.body for seen in endpoint.posts)
    gone = sorted(first.keys() - second.keys())
    return f"without {', '.join(gone)}" if gone else AGAIN


def cases() -> Iterator[Case]:
    for name, source, body, right in (*placed(), *wrapped(), *marked()):
        yield Case(name, right, taken(body), source)
    for name, source, status, said, wanted in (*schemas(), *named_beside(), *fields(), *ends()):
        yield Case(f"{status}-{name}", wanted, done(status, said), source)
