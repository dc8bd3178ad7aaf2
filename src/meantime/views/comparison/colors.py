"""The colours of more and of less than before, in all pictures of two sides.

They are the vermilion and the blue of Okabe and Ito, which all kinds of colour vision distinguish;
on dark ground a lighter vermilion and their sky blue.
"""

__all__ = ["LESS", "LESS_DARK", "MORE", "MORE_DARK"]

MORE, LESS = "#d55e00", "#0072b2"
MORE_DARK, LESS_DARK = "#f2833a", "#56b4e9"
