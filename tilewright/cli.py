"""The command line: `tilewright compile`, `tilewright profile`, `tilewright doctor`, `tilewright cache`."""

import runpy
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from time import localtime, strftime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tilewright.lang import TilewrightError, knobs
from tilewright.runtime import (
    PROFILE_COLUMNS,
    CompileOptions,
    Kept,
    Store,
    compile_ahead,
    diagnose,
    find_device,
    kernel_cache,
    load_kernel,
    record_launches,
)

STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin")
COLORS = {"works": "green", "absent": "yellow", "fault": "red"}

app = typer.Typer(
    help="Compile kernels, profile them, see what works on this machine, and look after the cache of compiled kernels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cache_app = typer.Typer(help="The kernels that are kept on disk.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")


def fail(message: str, status: int = 1) -> typer.Exit:
    """Tell what is wrong, on standard error; the exit to raise."""
    typer.echo(message if message.startswith("error: ") else f"error: {message}", err=True)
    return typer.Exit(status)


def show(table: Table) -> None:
    """Print a table: as wide as the terminal, or as wide as it wants to be where the output goes to a file."""
    console = Console()
    if not console.is_terminal:
        console.width = 200
    console.print(table)


@app.command("compile")
def compile_command(
    kernel: Annotated[str, typer.Argument(help="path/to/file.py:kernel", show_default=False)],
    signature: Annotated[str, typer.Option(help='one entry a parameter, such as "*fp32:16, i32, 1024"')],
    target: Annotated[str, typer.Option(help="sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a or sm_120a")] = "sm_90a",
    num_warps: Annotated[int, typer.Option(help="warps of 32 threads in a block")] = 4,
    num_stages: Annotated[int, typer.Option(help="depth of pipelined loops")] = 3,
    maxnreg: Annotated[int | None, typer.Option(help="the most registers of a thread", show_default="any")] = None,
    fp_fusion: Annotated[bool, typer.Option(help="fuse multiplications and additions")] = True,
    emit: Annotated[str, typer.Option(help=f"stages, of {', '.join(STAGES)}")] = "ptx",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="folder for the stages, one file each")] = None,
) -> None:
    """Compile a kernel without a GPU, and print its stages or write them to a folder."""
    wanted = [name.strip() for name in emit.split(",") if name.strip()]
    if not wanted:
        raise fail(f"--emit names no stage; the stages: {', '.join(STAGES)}", 2)
    if unknown := [name for name in wanted if name not in STAGES]:
        raise fail(f"there is no stage {unknown[0]!r}; the stages: {', '.join(STAGES)}", 2)
    if output is None and "cubin" in wanted:
        raise fail("a cubin is no text: name a folder for it with -o", 2)
    try:
        options = CompileOptions(num_warps, num_stages, maxnreg=maxnreg, enable_fp_fusion=fp_fusion)
        compiled = compile_ahead(load_kernel(kernel), signature, find_device(f"emulator:{target}"), options)
        stages = {name: compiled.asm[name] for name in wanted}
    except TilewrightError as error:
        raise fail(str(error)) from None
    if output is None:
        for name, text in stages.items():
            typer.echo(f"// {compiled.name}: {name}\n{text}" if len(stages) > 1 else text)
        return
    write(output, compiled.name, stages)
    if "cubin" in stages:
        used = compiled.metadata
        typer.echo(
            f"{used.registers} registers, {used.stack} bytes of stack, {used.spills} bytes spilled, "
            f"{used.shared} bytes of shared memory"
        )


def write(folder: Path, name: str, stages: dict[str, str | bytes]) -> None:
    """Write each stage to `folder/name.stage`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stage, content in stages.items():
            path = folder / f"{name}.{stage}"
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            typer.echo(str(path))
    except OSError as error:
        raise fail(str(error)) from None


@app.command("profile", context_settings={"allow_interspersed_args": False})
def profile_command(
    script: Annotated[Path, typer.Argument(help="path/to/script.py", show_default=False)],
    arguments: Annotated[list[str] | None, typer.Argument(help="what the script is given", show_default=False)] = None,
    target: Annotated[str, typer.Option(help="what kernels are compiled for")] = "sm_90a",
    sort: Annotated[str, typer.Option(help=f"line, or the largest first of {', '.join(PROFILE_COLUMNS)}")] = "line",
    top: Annotated[int | None, typer.Option(min=1, help="the most lines of a kernel", show_default="all")] = None,
) -> None:
    """Run a script with its kernels on the emulator, and print what each cost by line. The status is the script's."""
    if sort not in ("line", *PROFILE_COLUMNS):
        raise fail(f"--sort takes line, {', '.join(PROFILE_COLUMNS)}; found {sort!r}", 2)
    if not script.is_file():
        raise fail(f"there is no Python file {str(script)!r}", 2)
    try:
        knobs.device = find_device(f"emulator:{target}").name
    except TilewrightError as error:
        raise fail(str(error)) from None
    with record_launches() as recorder:
        status = run_script(script, arguments or [])
    sys.stdout.flush()
    for profile in recorder.profiles:
        typer.echo(f"\n{profile.table(sort, top)}")
    if not recorder.profiles:
        typer.echo("no kernel ran on the emulator", err=True)
    raise typer.Exit(status)


def run_script(script: Path, arguments: list[str]) -> int:
    """Run a script as `python script.py arguments` would, to the exit status; its errors go to standard error."""
    sys.argv[:] = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        typer.echo(end.code, err=True)
        return 1
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != str(script):
            trace = trace.tb_next  # the frames that led to the script are ours
        traceback.print_exception(error.with_traceback(trace))
        return 1
    return 0


@app.command()
def doctor() -> None:
    """Try what kernels need on this machine: what works, and why the rest does not. Status 1 if something is broken."""
    table = Table("what", "state", "found", title="tilewright doctor")
    broken = False
    for finding in diagnose():
        broken |= finding.state == "fault"
        table.add_row(finding.what, Text(finding.state, COLORS[finding.state]), Text(finding.found))
    show(table)
    if broken:
        raise typer.Exit(1)


def surveyed(store: Store) -> list[Kept]:
    """Every kept kernel, or the end of the program where the folder cannot be read."""
    try:
        return store.survey()
    except NotADirectoryError:
        raise fail(f"{store.folder} is no folder") from None
    except OSError as error:
        raise fail(str(error)) from None


def opened_store() -> Store:
    """The folder of kept kernels, or the end of the program."""
    store = kernel_cache.store()
    if store is None:
        raise fail("no kernels are kept: TILEWRIGHT_CACHE_MAX_BYTES is 0, or there is no home folder")
    return store


@cache_app.command("ls")
def cache_list() -> None:
    """List the kept kernels, the last used first."""
    store = opened_store()
    table = Table("key", "kernel", "target", "stages", "bytes", "last used", title=Text(str(store.folder)))
    kept = surveyed(store)
    for file in kept:
        facts: Mapping[str, Any] = file.entry.metadata if file.entry else {}
        stages = ", ".join(file.entry.stages) if file.entry else Text(file.problem, "red")
        used = strftime("%Y-%m-%d %H:%M:%S", localtime(file.used))
        name, target = str(facts.get("name", "?")), str(facts.get("target", "?"))
        table.add_row(file.path.name[:12], Text(name), target, stages, f"{file.size:,}", used)
    show(table)
    typer.echo(f"{kernels_of(len(kept))}, {sum(file.size for file in kept):,} of {store.max_bytes:,} bytes")


def kernels_of(count: int) -> str:
    """So many kernels, in words."""
    return f"{count} kernel{'' if count == 1 else 's'}"


@cache_app.command("verify")
def cache_verify() -> None:
    """Check every kept kernel. Status 1 if one is damaged; a damaged one is never used, and replaced when needed."""
    kept = surveyed(opened_store())
    bad = [file for file in kept if file.problem]
    for file in bad:
        typer.echo(f"{file.path}: {file.problem}")
    typer.echo(f"{kernels_of(len(kept))}, {len(bad)} damaged")
    if bad:
        raise typer.Exit(1)


@cache_app.command("clear")
def cache_clear() -> None:
    """Remove every kept kernel."""
    store = opened_store()
    try:
        removed = store.clear()
    except OSError as error:
        raise fail(str(error)) from None
    typer.echo(f"removed {kernels_of(removed)} from {store.folder}")


def main() -> None:
    """The entry point of the command `tilewright`."""
    app()
