"""What the tools know by name: dialects, passes, and how others add theirs.

Everything is a table of module names, and a module is imported when something asks for
what is in it: start-up pays for what a text and a pipeline use.  Others add passes and
dialects in two ways that need no change here: the entry-point groups ``polyc.passes``
and ``polyc.dialects`` (name = "module:object"), and ``--load-pass module:Class`` and
``--load-dialect module:object`` on the command line.  Dialects of xDSL's own plug-in
group ``xdsl.universe`` are found too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect
from xdsl.passes import ModulePass

from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.pipeline import ABOVE_GPU, ASIDE, GPU_PASSES, import_pass
from polyc.rewriting.outside import error_text, outside_error, place_in
from polyc.tools.errors import as_polyc_error
from polyc.tools.python_file import execute
from polyc.tools.streams import os_error

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from xdsl.utils.arg_spec import ArgSpec

PassFactory = Callable[[], type[ModulePass]]

DIALECTS: Mapping[str, str] = {
    "polyc": "polyc.dialects.common.dim",
    "frontend": "polyc.dialects.frontend",
    "tiny": "polyc.dialects.tiny",
    "index": "polyc.dialects.index",
    "region": "polyc.dialects.region",
    "plan": "polyc.dialects.plan",
    "gpu": "polyc.dialects.gpu",
}
"""Our dialects and the modules that hold their ``Dialect``; ``index`` and ``gpu`` are ours."""

PASSES = (*ABOVE_GPU, *ASIDE, *GPU_PASSES)
"""Our passes."""

UPSTREAM_PASSES = (
    "apply-pdl",
    "canonicalize",
    "cse",
    "dce",
    "licm",
    "lower-affine",
    "scf-for-loop-flatten",
    "scf-for-loop-range-folding",
    "scf-for-loop-unroll",
)
"""Passes of xDSL that do not make ops of a dialect whose name is ours."""

PASS_GROUP, DIALECT_GROUP = "polyc.passes", "polyc.dialects"


def _module(name: str, what: str) -> ModuleType:
    """Import ``name``; a module that is not there is a PolycError, a broken one is not."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise PolycError("NotAvailable", f"{what} is not available: no module {name}") from error


def _dialect(name: str, module: str) -> Dialect:
    for value in vars(_module(module, f"dialect {name}")).values():
        if isinstance(value, Dialect) and value.name == name:
            return value
    raise PolycError("NotAvailable", f"module {module} has no dialect named {name}")


def register_dialects(ctx: Context) -> None:
    """Register our dialects and those of xDSL, ours in the place of a namesake."""
    ours = {name: partial(_dialect, name, module) for name, module in DIALECTS.items()}
    for name, factory in (get_all_dialects() | ours).items():
        ctx.register_dialect(name, factory)


def make_context() -> Context:
    """A context that knows every dialect and has loaded none but ``builtin``."""
    ctx = Context()
    register_dialects(ctx)
    ctx.load_registered_dialect("builtin")
    return ctx


def load_plugin_dialects(ctx: Context) -> bool:
    """Register the dialects of installed plug-ins; returns whether there was a new one."""
    from importlib.metadata import entry_points

    from xdsl.universe import XDSL_UNIVERSE, Universe

    found: dict[str, Callable[[], Dialect]] = {}
    points = entry_points()
    for point in points.select(group="xdsl.universe"):
        universe = _load_point(point, "the plug-in")
        if isinstance(universe, Universe) and universe is not XDSL_UNIVERSE:
            found |= universe.all_dialects
    for point in points.select(group=DIALECT_GROUP):
        found[point.name] = partial(_dialect_of, point)
    known = set(ctx.registered_dialect_names)
    for name, factory in found.items():
        if name not in known:
            ctx.register_dialect(name, factory)
    return not known.issuperset(found)


def _dialect_of(point: EntryPoint) -> Dialect:
    """The dialect of an installed plug-in.  Raises PolycError of kind ``BadReference``."""
    dialect = _load_point(point, "dialect")
    if not isinstance(dialect, Dialect):
        raise PolycError("BadReference", f"{point.value} is not an xdsl.ir.Dialect")
    return dialect


def _not_loaded(what: str, error: BaseException) -> PolycError:
    """The error for a plug-in that cannot be imported, at its own line where that is known."""
    place = place_in(error)
    known = os_error(error) if isinstance(error, OSError) and place is None else None
    text = error_text(error) if known is None else f"{known.place}: {known.message}"
    return PolycError("BadReference", f"{what} does not load: {text}", place)


def _load_point(point: EntryPoint, what: str) -> object:
    """The object of an installed plug-in.  Raises PolycError of kind ``BadReference``."""
    try:
        return cast(object, point.load())
    except PolycError:
        raise
    except (Exception, SystemExit) as error:
        raise _not_loaded(f"{what} {point.name} ({point.value})", error) from error


def load_object(reference: str, what: str) -> object:
    """The object that ``module:name`` or ``path/to/file.py:name`` names.

    Modules are looked for in the working directory too.  Raises PolycError of kind
    ``BadReference``.
    """
    where, colon, name = reference.rpartition(":")
    if not colon or not where or not name:
        raise PolycError(
            "BadReference",
            f"{what} {reference!r} is not of the form module:Name or file.py:Name",
        )
    try:
        if where.endswith(".py"):
            module = execute(where)
        else:
            if (here := os.getcwd()) not in sys.path:
                sys.path.insert(0, here)
            module = import_module(where)
    except PolycError:
        raise
    except (Exception, SystemExit) as error:
        raise _not_loaded(f"{what} {reference!r}", error) from error
    if not hasattr(module, name):
        raise PolycError("BadReference", f"{where} has no {name}, which {what} asks for")
    return cast(object, getattr(module, name))


def load_dialect(ctx: Context, reference: str) -> None:
    """Register the dialect ``module:object`` in ``ctx``."""
    dialect = load_object(reference, "dialect")
    if not isinstance(dialect, Dialect):
        raise PolycError("BadReference", f"{reference} is not an xdsl.ir.Dialect")
    if dialect.name in ctx.registered_dialect_names:
        raise PolycError("BadReference", f"a dialect named {dialect.name} is there already")
    ctx.load_dialect(dialect)


def check_pass(value: object, reference: str) -> type[ModulePass]:
    """``value`` as a pass class.  Raises PolycError of kind ``BadReference``."""
    if not (isinstance(value, type) and issubclass(value, ModulePass)):
        raise PolycError("BadReference", f"{reference} is not a subclass of xdsl ModulePass")
    if not isinstance(getattr(value, "name", None), str):
        raise PolycError("BadReference", f"pass {reference} has no name")
    if "__dataclass_fields__" not in vars(value) and any(
        "ClassVar" not in str(kind) and name != "name"
        for name, kind in vars(value).get("__annotations__", {}).items()
    ):
        raise PolycError(
            "BadReference",
            f"pass {reference} has options but is no dataclass; add @dataclass(frozen=True)",
        )
    return value


@dataclass
class PassRegistry:
    """Passes by name; ``extra`` are those that a command line or a library added."""

    extra: dict[str, type[ModulePass]] = field(default_factory=dict[str, type[ModulePass]])

    def add(self, reference: str) -> None:
        """Add the pass that ``module:Class`` names."""
        cls = check_pass(load_object(reference, "pass"), reference)
        if cls.name in PASSES or cls.name in UPSTREAM_PASSES:
            raise PolycError(
                "BadReference", f"pass {reference} is named {cls.name}, which polyc has already"
            )
        if self.extra.setdefault(cls.name, cls) is not cls:
            raise PolycError(
                "BadReference",
                f"pass {reference} is named {cls.name}, as {self.extra[cls.name].__module__}:"
                f"{self.extra[cls.name].__name__} is; name each by its own name",
            )

    def names(self, plugins: bool = False) -> list[str]:
        """All names, ours first; ``plugins`` asks for those of installed packages too."""
        known = [*PASSES, *UPSTREAM_PASSES, *self.extra]
        if plugins:
            known += list(_plugin_passes())
        return list(dict.fromkeys(known))

    def find(self, name: str) -> type[ModulePass]:
        """The pass class ``name``.  Raises PolycError of kind ``UnknownPass``."""
        if name in self.extra:
            return self.extra[name]
        if name in PASSES:
            return import_pass(name)
        if name in UPSTREAM_PASSES:
            from xdsl.transforms import get_all_passes

            return get_all_passes()[name]()
        if (plugin := _plugin_passes().get(name)) is not None:
            return plugin()
        names = self.names(plugins=True)
        close = get_close_matches(name, names, 1)
        way = f"did you mean {close[0]}?" if close else f"the passes are {', '.join(names)}"
        raise PolycError("UnknownPass", f"there is no pass {name}; {way}")

    def build(self, spec: ArgSpec) -> list[ModulePass]:
        """The pass of ``spec`` with its options; one that stands for several gives those.

        Raises PolycError of kind ``UnknownPass`` or ``BadPassOption``.
        """
        cls = self.find(spec.name)
        try:
            instance = cls.from_spec(spec)
        except (Exception, SystemExit) as error:
            if (fault := outside_error(error, f"pass {spec.name}")) is not None:
                raise fault from error
            if not isinstance(error, ValueError | TypeError):
                raise
            raise PolycError("BadPassOption", f"pass {spec.name}: {error}") from error
        expand = getattr(instance, "expand", None)
        return [instance] if expand is None else list(cast(list[ModulePass], expand()))

    def parse(self, pipeline: str) -> list[ModulePass]:
        """The passes that ``a,b{option=value},c`` names, in order."""
        from xdsl.utils.arg_spec import parse_pipeline
        from xdsl.utils.exceptions import ArgSpecParseError

        try:
            specs = list(parse_pipeline(pipeline))
        except ArgSpecParseError as error:
            known = as_polyc_error(error)
            known.message = f"pass pipeline {pipeline!r} does not read: {known.message}"
            raise known from error
        check_options_once(pipeline)
        return [instance for spec in specs for instance in self.build(spec)]


def check_options_once(pipeline: str) -> None:
    """Raises PolycError ``BadPassOption`` for an option that a pass gets twice.

    xDSL's reader takes the last, and ``a-b`` for ``a_b``.
    """
    plain = re.sub(r'"(?:[^"\\]|\\.)*"', '""', pipeline)
    for name, options in re.findall(r"([\w-]+)\{([^{}]*)\}", plain):
        given = [word.partition("=")[0].replace("-", "_") for word in options.split()]
        for option in given:
            if given.count(option) > 1:
                raise PolycError("BadPassOption", f"pass {name} gets the option {option} twice")


def _plugin_passes() -> dict[str, PassFactory]:
    from importlib.metadata import entry_points

    def factory(point: EntryPoint) -> PassFactory:
        return lambda: check_pass(_load_point(point, "pass"), point.value)

    return {point.name: factory(point) for point in entry_points(group=PASS_GROUP)}
