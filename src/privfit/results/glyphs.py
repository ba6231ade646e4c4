"""Text in figures: what Matplotlib's font lacks would be drawn as boxes, with a warning for each."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font


def drawable(text: str) -> str:
    r"""Return a text with escapes, such as ``\u5317``, for characters that the fonts of figures lack.

    These are Matplotlib's ``rcParams["font.family"]``: with a family that has the characters they are kept.
    """
    if text.isascii():
        return text
    fonts = list(_fonts())
    return "".join(one if _drawn(one, fonts) else _escaped(one) for one in text)


def _fonts() -> "Iterable[FT2Font]":
    """Yield the fonts that Matplotlib looks a character up in, in turn."""
    from matplotlib import font_manager  # noqa: PLC0415 -- slow and optional

    for family in font_manager.FontProperties().get_family():
        try:
            path = font_manager.findfont(
                font_manager.FontProperties(family=[family]), fallback_to_default=False
            )
        except ValueError:  # it is not installed, and Matplotlib goes on to the next
            continue
        yield font_manager.get_font(path)


def _drawn(char: str, fonts: "Iterable[FT2Font]") -> bool:
    return char.isascii() or any(font.get_char_index(ord(char)) for font in fonts)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
