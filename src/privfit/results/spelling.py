"""Names of coefficients and terms as a formula spells them: ```my x`:z`` for ``my x:z``."""


def end_of(name: str, text: str, at: int) -> int | None:
    """Return where a name that is spelled at this place of a text ends, or None if another stands there.

    It is spelled as it is, in backquotes as a whole, or with factors in them, up to their levels.

    Parameters
    ----------
    name : str
        Of a coefficient or term; factors are joined by a colon, and levels are in brackets.
    text : str
    at : int
    """
    if not name:
        return None
    for whole in (name, f"`{name}`"):
        if text.startswith(whole, at):
            return at + len(whole)
    place, quoted = 0, False
    while place < len(name) or quoted:
        here, there = name[place : place + 1], text[at : at + 1]
        if here and here == there:
            place += 1
        elif there == "`" and (here in ("", ":", "[") if quoted else _begins(name, place)):
            quoted = not quoted
        else:
            return None
        at += 1
    return at


def is_spelled(name: str, text: object) -> bool:
    """Return whether what was given is a text that spells this name and nothing else."""
    return isinstance(text, str) and end_of(name, text, 0) == len(text)


def _begins(name: str, place: int) -> bool:
    """Return whether a factor begins at this place, perhaps behind the name of a class."""
    return place == 0 or name.endswith((":", ": "), 0, place)
