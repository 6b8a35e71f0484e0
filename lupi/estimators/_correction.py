"""One name, two uses: ``SVMPlus(correction="labelled")`` is a parameter, ``model.correction(privileged)`` a function."""

from __future__ import annotations


class Correction(str):
    """The parameter's value, which on a fitted model can also be called."""

    def __new__(cls, value, model):
        """Remember the model whose correcting function a call evaluates."""
        out = super().__new__(cls, value)
        out._model = model
        return out

    def __call__(self, privileged):
        """Values of the correcting function; see ``correcting_function``."""
        return self._model.correcting_function(privileged)


class CorrectionParameter:
    """Stores what ``__init__`` was given, and hands it out as a :class:`Correction` once the model is fitted.

    ``get_params`` and copies keep to the plain string, so that parameters never drag a model along.
    """

    def __get__(self, model, owner=None):
        if model is None:
            return self
        try:
            value = model.__dict__["correction"]
        except KeyError:
            raise AttributeError(f"{type(model).__name__!r} object has no attribute 'correction'") from None
        if isinstance(value, str) and "classes_" in model.__dict__:
            return Correction(value, model)
        return value

    def __set__(self, model, value):
        model.__dict__["correction"] = str(value) if isinstance(value, Correction) else value
