"""Why a selector cannot be used, or has no result for a device."""


class SelectorError(ValueError):
    """The expression does not compile, or is outside the subset that Muster understands."""


class EvaluationError(ValueError):
    """The expression has no result for this device; the words are those of cel-go."""


NO_OVERLOAD = "no such overload"
