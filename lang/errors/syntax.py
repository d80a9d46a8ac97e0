"""Mistakes in how a kernel is written: Python constructs, names, calls, control flow. One class a mistake."""

from __future__ import annotations

from .base import CompilationError

# --- functions and their sources ---


class NotAKernelFunction(CompilationError):
    """What was decorated is no function written with `def`."""

    message = "{found} cannot be compiled"
    expected = "a function written with `def`"


class SourceUnavailable(CompilationError):
    """The source text of a function cannot be found."""

    message = "the source of {function} cannot be read: {reason}"
    hint = "define the kernel in a file or a notebook cell; `exec` and the prompt keep no source"


class UnsupportedParameter(CompilationError):
    """A kernel has a kind of parameter that cannot be specialised."""

    message = "{function}: `**{parameter}` cannot be a parameter of a kernel"
    expected = "positional or keyword parameters, with or without defaults, and `*args`"


class CalledOutsideKernel(CompilationError):
    """A device function is called by plain Python."""

    message = "{function} was called outside of a kernel"
    hint = "launch it as `kernel[grid](...)`, or call it from a function decorated with @tilewright.jit"


# --- constructs ---


class UnsupportedConstruct(CompilationError):
    """A Python construct that has no meaning in a kernel."""

    message = "{construct} cannot be used in a kernel"
    hint = "{advice}"


class NestedTooDeeply(CompilationError):
    """The source nests so deeply that walking it exhausts Python's stack."""

    message = "the code is nested too deeply"
    hint = "split long expressions, chains of `elif` and rows of `if ...: return`, or move parts into device functions"


# --- names ---


class UnknownName(CompilationError):
    """A name that is defined nowhere."""

    message = "`{name}` is not defined"
    hint = "{suggestion}"


class NotDefined(CompilationError):
    """A local name is read where it has no value, or not on every path."""

    message = "`{name}` is not defined here: {reason}"
    hint = "give it a value before, with the type that it has later"


class UnavailableBuiltin(CompilationError):
    """One of Python's own functions that kernels lack."""

    message = "Python's `{name}` does not exist in kernels"
    hint = "{advice}"


class NotInThisVersion(CompilationError):
    """A name of Triton's language that this version of Tilewright lacks."""

    message = "{owner} has no `{name}` in this version of Tilewright, though Triton has"
    hint = "{advice}"


class UnknownAttribute(CompilationError):
    """An object has no attribute of this name."""

    message = "{owner} has no attribute `{attribute}`"
    hint = "{suggestion}"


class NonConstexprGlobal(CompilationError):
    """A kernel reads a variable from outside that may change between launches."""

    message = "`{name}` is {found} from outside of the kernel"
    expected = "a constexpr, None, a dtype, a module, or a function of kernels"
    hint = "{hint}"


class PlainPythonFunction(CompilationError):
    """A kernel uses a Python function or class that is no kernel code."""

    message = "`{name}` is {found}"
    expected = "{expected}"
    hint = "{hint}"


class ConstexprReassigned(CompilationError):
    """A name that was annotated as constexpr gets a second value."""

    message = "`{name}` is a constexpr since line {line} and cannot change"
    hint = "use another name, or drop the annotation to make it a runtime value"


# --- calls ---


class NotCallable(CompilationError):
    """Something that is no function is called."""

    message = "{found} is no function"
    expected = "a function of `tl`, a device function, or a method"
    hint = "{hint}"


class ConstexprParameter(CompilationError):
    """A constexpr parameter is given a runtime value."""

    message = "{function}: parameter `{parameter}` is a constexpr, but the argument is {found}"
    expected = "a value known at compile time"
    hint = "pass a literal or a constexpr, or drop `tl.constexpr` from the parameter"


class ConstexprNeeded(CompilationError):
    """A construct needs a compile-time value and is given a runtime one."""

    message = "{construct} must be known at compile time, but it is {found}"
    expected = "a constexpr"
    hint = "{advice}"


class CompileTimeFailure(CompilationError):
    """Python code that runs at compile time raised an exception."""

    message = "{what} failed at compile time: {kind}: {detail}"


class EndlessRecursion(CompilationError):
    """A device function calls itself with arguments of the same types and the same compile-time values."""

    message = "{function} calls itself again with arguments of the same types and no other compile-time values"
    expected = "a recursion that compile-time values end, at most {limit} calls deep"
    hint = "there is no recursion at run time; use a loop"


class CallsTooDeep(CompilationError):
    """Calls of device functions nest deeper than the limit."""

    message = "the call of {function} is nested more than {limit} calls deep"
    expected = "at most {limit} calls inside of each other, recursive ones included"
    hint = "use a loop"


class BadIndex(CompilationError):
    """A tuple is indexed past its end."""

    message = "{found} has no element {index}"
    hint = "{hint}"


# --- values and types at joins ---


class CannotUnpack(CompilationError):
    """The value does not fall into as many parts as there are targets."""

    message = "{found} cannot be unpacked into {count} names"
    expected = "{expectation}"


class MismatchedBranches(CompilationError):
    """A variable has different types after the two branches of an `if`."""

    message = "`{name}` is {then} where the condition at line {line} holds, and {other} where it does not"
    expected = "one type on both paths"
    hint = "cast one of them, or use two names"


class MismatchedTernary(CompilationError):
    """The two values of a conditional expression differ in type."""

    message = "the conditional expression is {then} where its condition holds, and {other} where it does not"
    expected = "one type"
    hint = "cast one of them, for example `x.to(tl.float32)`"


class LoopCarriedTypeChanged(CompilationError):
    """A variable that lives across iterations changes its type in the loop."""

    message = "`{name}` is {before} before the loop at line {line}, and {after} after an iteration"
    expected = "one type throughout"
    hint = "start with the final type, for example `tl.zeros(shape, dtype)`, or use another name inside"


class MismatchedReturns(CompilationError):
    """Two `return` statements of one function give different types."""

    message = "{function} returns {first} on one path and {second} on another"
    expected = "one type on every path"
    hint = "cast the values to one type, and end every path with a `return`"


class KernelReturnsValue(CompilationError):
    """The kernel itself returns something."""

    message = "the kernel {function} returns {found}"
    expected = "a bare `return`"
    hint = "store results through pointers"


# --- conditions and loops ---


class TileCondition(CompilationError):
    """A branch on a tile of more than one element."""

    message = "the condition of {construct} is {found}"
    expected = "a scalar; which way would a tile go?"
    hint = "select elements with `tl.where(condition, x, y)`, or reduce the tile to a scalar first"


class NotIterable(CompilationError):
    """A loop over something that cannot be looped over."""

    message = "{construct} {found}"
    expected = "{expected}"
    hint = "{hint}"


class ZeroStep(CompilationError):
    """A range with step 0."""

    message = "the step of the range is 0"
    expected = "a positive or negative step"


class EndlessLoop(CompilationError):
    """A loop that nothing ends."""

    message = "the condition of the loop is always true, and nothing leaves the loop"
    hint = "end it with `break` or `return`"
