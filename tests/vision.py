"""Differences of colours: CIE76 distances for four kinds of colour vision, contrast."""

from __future__ import annotations

import numpy as np

from ccltui.draw.palette import rgb
from ccltui.parsers.array_types import F64

# Machado, Oliveira, Fernandes 2009, severity 1.0.
VISIONS: dict[str, F64] = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XTERM_16 = (
    *((0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0)),
    *((0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)),
    *((127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0)),
    *((92, 92, 255), (255, 0, 255), (0, 255, 255), (255, 255, 255)),
)
_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.9505, 1.0, 1.089])


def linear(index: int) -> F64:
    """Linear red, green and blue of an index of the 256 colours."""
    value = np.array(XTERM_16[index] if index < 16 else rgb(index)) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(index: int, vision: str) -> F64:
    """CIE L*a*b* as somebody sees it."""
    seen = np.clip(VISIONS[vision] @ linear(index), 0, 1)
    xyz = (_XYZ @ seen) / _WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def distance(a: int, b: int) -> float:
    """The smallest distance of two colours in any vision."""
    return min(float(np.linalg.norm(lab(a, vision) - lab(b, vision))) for vision in VISIONS)


def luminance(index: int) -> float:
    """Relative luminance of WCAG 2, 0 to 1."""
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(index))


def contrast(a: int, b: int) -> float:
    """Contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)
