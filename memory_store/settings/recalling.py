"""Settings of how memories are found."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from .section import Section


class SearchSettings(Section):
    """How memories are found."""

    #: "score" measures best; "rrf" is reciprocal rank fusion, k = `rrf_k` (R23)
    fusion: Literal["score", "rrf"] = "score"
    #: The constant of reciprocal rank fusion
    rrf_k: int = Field(60, ge=1)
    #: Candidates that each leg supplies
    candidates: int = Field(50, ge=1)
    #: Weight of the vector leg; the full-text leg has the rest
    vector_weight: float = Field(0.5, ge=0, le=1)
    #: What only meaning brings, in the script of the query, is not returned below this relevance, 0 to 1
    floor: float = Field(0.1, ge=0, le=1)
    #: The same for memories that share neither word nor name with the query where others do, if both are of one script
    lone_floor: float = Field(0.7, ge=0, le=1)
    #: Where the query names in full what some memories are about, other facts and preferences must be this share as
    #: relevant as the best of those
    named_share: float = Field(0.95, ge=0, le=1)
    #: Other weights of legs than the shipped ones, by name; 0: the leg is not asked. docs/recall.md lists the legs
    weights: dict[str, float] = Field(default_factory=dict)
    #: Seconds until writes of other processes are looked for again; 0: at every search
    refresh_seconds: float = Field(0, ge=0)
    #: Whether reads are logged: what was asked and returned, from which usage and credit are computed
    log_reads: bool = True
    #: Decay of importance a day, in ranking and in forgetting (R15)
    decay: float = Field(0.01, ge=0)
    #: An experience that was read, but not for this many days, ranks lower (R16)
    idle_days: int = Field(60, ge=1)
    #: What its rank is multiplied by
    idle_factor: float = Field(0.5, ge=0, le=1)
    #: Most that usefulness adds to a memory's rank, or takes off it, as a share of it (N5)
    usefulness_weight: float = Field(0.3, ge=0, le=1)
    #: Seconds until a reader looks for newer numbers of usage and credit; jobs write them once a day
    usage_seconds: float = Field(60, ge=0)


class RerankSettings(Section):
    """Asking a reranker for the order of the best that a search found (R24). Empty `url`: none is asked.

    The texts of the candidates are sent to it.
    """

    #: Address of a `/rerank` endpoint (Cohere, Jina, Voyage, vLLM, llama.cpp, TEI), such as http://127.0.0.1:8080/rerank
    url: str = Field("", pattern=r"^$|^https?://[^\s/]")
    #: Key for the endpoint
    api_key: SecretStr = SecretStr("")
    #: Name of the model, where the endpoint has several
    model: str = ""
    #: What the request calls the texts: "documents" everywhere but in Text Embeddings Inference, whose own is "texts"
    body: Literal["documents", "texts"] = "documents"
    #: Most candidates that it is asked about
    candidates: int = Field(20, ge=1, le=1000)
    #: Seconds until it is given up, all tries together: the search then answers without it
    timeout_seconds: float = Field(2.0, gt=0)
    #: Tries after the first, in one layer
    retries: int = Field(1, ge=0)
