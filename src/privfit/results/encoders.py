"""How a result keeps what encodes new rows: by the public facts that an encoder is made from.

Reading makes the encoder anew, as a fit does: the schema is checked, and the formula is parsed against what
is allowed in one and never run.
"""

from collections.abc import Mapping
from typing import Any

from privfit.data.encode import AbstractEncoder, EncoderFacts, SchemaFacts
from privfit.data.unit_scale import UnitScaleFacts
from privfit.errors import PrivfitError, SchemaError
from privfit.results import archive
from privfit.terms.encoder import FormulaFacts

_KINDS: Mapping[str, type[EncoderFacts]] = {
    "formula": FormulaFacts,
    "schema": SchemaFacts,
    "unit scale": UnitScaleFacts,
}
"""What the JSON calls each way of encoding rows."""


def written(encoder: AbstractEncoder | None) -> Any:
    """Return the kind of an encoder and its facts, or None, as JSON-ready types."""
    if encoder is None:
        return None
    facts = encoder.facts
    (kind,) = (name for name, cls in _KINDS.items() if type(facts) is cls)
    return {"kind": kind, **archive.encode(facts)}


def read(value: Any, where: str) -> AbstractEncoder | None:
    """Return the encoder that `written` describes, or raise `SchemaError`; ``where`` is its place."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise SchemaError(f"{where} must be an object or null")
    entries = dict(value)
    kind = entries.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise SchemaError(f"{where}.kind must be one of {', '.join(_KINDS)}")
    facts = archive.decode_dataclass(_KINDS[kind], entries, where)
    try:
        return facts.encoder()
    except PrivfitError as error:
        raise SchemaError(f"{where}: {error}") from None


KEPT = archive.kept_as(written, read)
"""How a result says that its encoder is kept so."""
