"""The public names of modules that a deciding plugin may use: they read no clock, no randomness and
no file, keep no state, and give the same result everywhere.
"""

import ast
import collections.abc
import typing
from collections.abc import Iterator

import muster.plugin
from muster.user_plugins.determinism import NUMPY_FORBIDDEN

NUMPY = {
    *("False_", "True_", "abs", "absolute", "add", "all", "allclose", "amax", "amin", "any"),
    *("append", "apply_along_axis", "apply_over_axes", "arange", "argmax", "argmin", "argsort"),
    *("argwhere", "around", "array", "array_equal", "array_equiv", "array_split", "asanyarray"),
    *("asarray", "ascontiguousarray", "astype", "atleast_1d", "atleast_2d", "atleast_3d"),
    *("base_repr", "binary_repr", "bincount", "bitwise_and", "bitwise_count", "bitwise_invert"),
    *("bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor"),
    *("block", "bool", "bool_", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast"),
    *("ceil", "choose", "clip", "column_stack", "compress", "concat", "concatenate", "copy"),
    *("copysign", "copyto", "count_nonzero", "cumprod", "cumsum", "cumulative_prod"),
    *("cumulative_sum", "delete", "diag", "diagonal", "diff", "digitize", "divide", "divmod"),
    *("double", "dsplit", "dstack", "dtype", "e", "ediff1d", "equal", "errstate", "expand_dims"),
    *("extract", "eye", "fabs", "fill_diagonal", "finfo", "fix", "flatnonzero", "flip", "fliplr"),
    *("flipud", "float32", "float64", "floating", "floor", "floor_divide", "fmax", "fmin", "fmod"),
    *("frexp", "fromfunction", "fromiter", "full", "full_like", "gcd", "generic", "greater"),
    *("greater_equal", "heaviside", "histogram", "hsplit", "hstack", "identity", "iinfo"),
    *("indices", "inexact", "inf", "insert", "int16", "int32", "int64", "int8", "int_", "integer"),
    *("intersect1d", "intp", "invert", "isclose", "isfinite", "isin", "isinf", "isnan"),
    *("isneginf", "isposinf", "isscalar", "issubdtype", "ix_", "lcm", "ldexp", "left_shift"),
    *("less", "less_equal", "lexsort", "linspace", "logical_and", "logical_not", "logical_or"),
    *("logical_xor", "max", "maximum", "meshgrid", "min", "minimum", "mod", "modf", "moveaxis"),
    *("multiply", "nan", "nan_to_num", "nanargmax", "nanargmin", "nanmax", "nanmin", "ndarray"),
    *("ndenumerate", "ndim", "ndindex", "negative", "newaxis", "nonzero", "not_equal", "number"),
    *("object_", "ones", "ones_like", "outer", "packbits", "pad", "permute_dims", "piecewise"),
    *("pi", "place", "positive", "prod", "ptp", "put", "put_along_axis", "putmask", "r_"),
    *("ravel", "ravel_multi_index", "reciprocal", "remainder", "repeat", "reshape", "resize"),
    *("result_type", "right_shift", "rint", "roll", "rollaxis", "rot90", "round", "searchsorted"),
    *("select", "setdiff1d", "setxor1d", "shape", "sign", "signbit", "signedinteger", "size"),
    *("sort", "split", "sqrt", "square", "squeeze", "stack", "str_", "subtract", "swapaxes"),
    *("take", "take_along_axis", "tile", "transpose", "tri", "tril", "triu", "true_divide"),
    *("trunc", "uint16", "uint32", "uint64", "uint8", "uint", "uintp", "union1d", "unique"),
    *("unique_all", "unique_counts", "unique_inverse", "unique_values", "unpackbits"),
    *("unravel_index", "unsignedinteger", "unstack", "vectorize", "vsplit", "vstack", "where"),
    *("zeros", "zeros_like", "c_", "s_", "ufunc"),
}
MODULES: dict[str, set[str]] = {
    "__future__": {"annotations"},
    "bisect": {"bisect", "bisect_left", "bisect_right", "insort", "insort_left", "insort_right"},
    "collections": {
        *("ChainMap", "Counter", "OrderedDict", "UserDict", "UserList", "UserString"),
        *("defaultdict", "deque", "namedtuple"),
    },
    "collections.abc": set(collections.abc.__all__),
    "dataclasses": {
        *("FrozenInstanceError", "InitVar", "KW_ONLY", "MISSING", "asdict", "astuple"),
        *("dataclass", "field", "fields", "is_dataclass", "replace"),
    },
    "enum": {"Enum", "Flag", "IntEnum", "IntFlag", "StrEnum", "auto", "member", "unique"},
    "fractions": {"Fraction"},
    "functools": {
        *("cache", "cached_property", "cmp_to_key", "lru_cache", "partial", "partialmethod"),
        *("reduce", "singledispatch", "singledispatchmethod", "total_ordering", "wraps"),
    },
    "heapq": {
        *("heapify", "heappop", "heappush", "heappushpop", "heapreplace", "merge", "nlargest"),
        "nsmallest",
    },
    "itertools": {
        *("accumulate", "batched", "chain", "combinations", "combinations_with_replacement"),
        *("compress", "count", "cycle", "dropwhile", "filterfalse", "groupby", "islice"),
        *("pairwise", "permutations", "product", "repeat", "starmap", "takewhile", "tee"),
        "zip_longest",
    },
    "math": {
        *("ceil", "comb", "copysign", "e", "fabs", "factorial", "floor", "fmod", "frexp", "fsum"),
        *("gcd", "inf", "isclose", "isfinite", "isinf", "isnan", "isqrt", "lcm", "ldexp", "modf"),
        *("nan", "nextafter", "perm", "pi", "prod", "remainder", "sqrt", "tau", "trunc", "ulp"),
    },
    "msgspec": {
        *("Meta", "NODEFAULT", "Struct", "UNSET", "UnsetType", "ValidationError", "convert"),
        *("field", "to_builtins"),
    },
    "msgspec.json": {"decode", "encode"},
    "msgspec.structs": {"asdict", "astuple", "fields", "replace"},
    "muster.plugin": set(muster.plugin.__all__) - {"Tried", "try_plugin"},
    "numpy": NUMPY,
    "numpy.typing": {"ArrayLike", "DTypeLike", "NDArray", "NBitBase"},
    "operator": {
        *("abs", "add", "and_", "concat", "contains", "countOf", "eq", "floordiv", "ge", "getitem"),
        *("gt", "index", "indexOf", "inv", "invert", "is_", "is_not", "itemgetter", "le"),
        *("lshift", "lt", "mod", "mul", "ne", "neg", "not_", "or_", "pos", "pow", "rshift", "sub"),
        *("truediv", "truth", "xor"),
    },
    "re": {
        *("A", "ASCII", "DOTALL", "I", "IGNORECASE", "M", "MULTILINE", "Match", "NOFLAG"),
        *("Pattern", "RegexFlag", "S", "U", "UNICODE", "VERBOSE", "X", "compile", "error"),
        *("escape", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"),
    },
    "string": {
        *("Template", "ascii_letters", "ascii_lowercase", "ascii_uppercase", "capwords"),
        *("digits", "hexdigits", "octdigits", "printable", "punctuation", "whitespace"),
    },
    "typing": set(typing.__all__) - {"get_type_hints"},
}
"""Functions whose results differ between C libraries and CPUs, such as math.log, are missing."""
PREFIXES = {name.partition(".")[0] for name in MODULES}


def imported(tree: ast.AST) -> dict[str, str]:
    """Return imported name -> what it is: `np` -> "numpy", `chain` -> "itertools.chain"."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                found[one.asname or one.name.partition(".")[0]] = (
                    one.name if one.asname else one.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    return found


def not_public(module: str, name: str) -> bool:
    """Return whether a plugin may not use this name of this module."""
    if f"{module}.{name}" in MODULES or f"{module}.{name}" in PREFIXES:
        return False
    return name not in MODULES.get(module, ())


def misused(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, error): a module reached through another, a name not listed, a module
    passed on.
    """
    modules = {name: of for name, of in imported(tree).items() if of in MODULES or of in PREFIXES}
    yield from _used(tree, modules)


def _used(node: ast.AST, modules: dict[str, str]) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        local_names = bound(node)
        modules = {name: of for name, of in modules.items() if name not in local_names}
    if isinstance(node, ast.Attribute):
        of = _module(node.value, modules)
        if node.attr in ("reduce", "reduceat") and _dotted(node.value, modules) == "numpy.add":
            yield node.lineno, "np.add.reduce"
        if of:
            if not_public(of, node.attr) and not (of == "numpy" and node.attr in NUMPY_FORBIDDEN):
                yield node.lineno, f"{ast.unparse(node)}"
            return
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        of = modules.get(node.id, "")
        if of and of != "numpy":
            yield node.lineno, f"{node.id} by itself, without .NAME,"
    elif isinstance(node, ast.Call) and _dotted(node.func, modules) == "numpy.ndarray":
        yield node.lineno, "np.ndarray(), whose contents are undefined,"
    for child in ast.iter_child_nodes(node):
        yield from _used(child, modules)


def _module(node: ast.expr, modules: dict[str, str]) -> str:
    """Return the module that the expression is; empty if none."""
    name = _dotted(node, modules)
    return name if name in MODULES or name in PREFIXES else ""


def _dotted(node: ast.expr, modules: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        of = _module(node.value, modules)
        return f"{of}.{node.attr}" if of else ""
    return modules.get(node.id, "") if isinstance(node, ast.Name) else ""


def bound(tree: ast.AST) -> set[str]:
    """Return the variables and parameters of the code, not its imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found
