"""The knobs file: where a value comes from, what is refused, and what the documentation's table says."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.lang.knobs import PREFIX, KnobError, Knobs, declarations, knobs, table

DEFAULTS = {
    "device": "",
    "verify": False,
    "cache_dir": Path.home() / ".tilewright" / "cache",
    "cache_max_bytes": 1 << 30,
    "debug": False,
    "seed": 0,
    "fuel": 10_000_000,
    "max_tile_numel": 1_048_576,
    "chunk_bytes": 1 << 21,
    "mma": "exact",
    "print_ir": False,
}
GOOD = [
    ("device", "interpreter", "interpreter"),
    ("device", "cuda", "cuda"),
    ("device", "cuda:1", "cuda:1"),
    ("device", "emulator", "emulator"),
    ("device", "emulator:sm_90a", "emulator:sm_90a"),
    ("device", " cuda ", "cuda"),
    ("device", "", ""),
    ("verify", "1", True),
    ("verify", "Yes", True),
    ("verify", "off", False),
    ("verify", "", False),
    ("cache_dir", "/tmp/kernels", Path("/tmp/kernels")),
    ("cache_dir", "~/kernels", Path.home() / "kernels"),
    ("debug", "true", True),
    ("seed", "17", 17),
    ("fuel", "0x10", 16),
    ("max_tile_numel", "65_536", 65_536),
    ("chunk_bytes", "", 1 << 21),
    ("mma", "hardware", "hardware"),
    ("print_ir", "on", True),
]
BAD_TEXT = [
    ("device", "gpu"),
    ("device", "emulator:90"),
    ("device", "interpreter:sm_80"),
    ("verify", "2"),
    ("verify", "maybe"),
    ("debug", "-"),
    ("seed", "-1"),
    ("seed", "one"),
    ("fuel", "0"),
    ("fuel", "1e6"),
    ("max_tile_numel", "1.5"),
    ("chunk_bytes", "64M"),
    ("mma", "volta"),
    ("print_ir", "print"),
]
BAD_VALUES = [
    ("device", None),
    ("device", "triton"),
    ("verify", 1),
    ("verify", "yes"),
    ("cache_dir", ""),
    ("cache_dir", 3),
    ("cache_dir", "~nobody-of-this-name/kernels"),
    ("seed", True),
    ("fuel", 0),
    ("fuel", 2.0),
    ("max_tile_numel", "65536"),
    ("mma", True),
]


def test_every_knob_has_its_default_in_an_empty_environment() -> None:
    empty = Knobs({})
    assert {name: getattr(empty, name) for name in declarations(Knobs)} == DEFAULTS


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_a_variable_sets_its_knob(name: str, text: str, value: object) -> None:
    got = getattr(Knobs({PREFIX + name.upper(): text}), name)
    assert got == value and type(got) is type(value)


@pytest.mark.parametrize(("name", "text"), BAD_TEXT)
def test_a_bad_variable_is_refused_by_name(name: str, text: str) -> None:
    variable = PREFIX + name.upper()
    with pytest.raises(KnobError) as caught:
        getattr(Knobs({variable: text}), name)
    assert str(caught.value).startswith(f"{variable}={text!r} is not a value this knob takes.\nhint: ")
    assert (caught.value.name, caught.value.value) == (variable, text)


@pytest.mark.parametrize(("name", "value"), BAD_VALUES)
def test_a_bad_assignment_is_refused_and_changes_nothing(name: str, value: object) -> None:
    own = Knobs({})
    with pytest.raises(KnobError, match=f"knobs.{name}="):
        setattr(own, name, value)
    assert getattr(own, name) == DEFAULTS[name]


def test_the_text_of_an_error() -> None:
    with pytest.raises(KnobError) as caught:
        _ = Knobs({"TILEWRIGHT_FUEL": "lots"}).fuel
    assert str(caught.value) == (
        "TILEWRIGHT_FUEL='lots' is not a value this knob takes.\n"
        "hint: it accepts an integer from 1 up, such as 4096, 0x1000 or 4_096"
    )


def test_the_environment_is_read_at_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (3, 4):
        monkeypatch.setenv("TILEWRIGHT_SEED", str(seed))
        assert knobs.seed == seed
    monkeypatch.delenv("TILEWRIGHT_SEED")
    assert knobs.seed == 0


def test_scope_beats_assignment_beats_environment_beats_default() -> None:
    own = Knobs({"TILEWRIGHT_FUEL": "2"})
    assert own.fuel == 2
    own.fuel = 3
    assert own.fuel == 3
    with own.scope(fuel=4):
        assert own.fuel == 4
        with own.scope(fuel=5, seed=1):
            assert (own.fuel, own.seed) == (5, 1)
        assert (own.fuel, own.seed) == (4, 0)
    assert own.fuel == 3
    del own.fuel
    assert own.fuel == 2


def test_an_assignment_inside_a_scope_ends_with_it() -> None:
    own = Knobs({})
    with own.scope(seed=1):
        own.seed = 2
        own.verify = True
        assert (own.seed, own.verify) == (2, True)
        del own.seed
        assert own.seed == 0
    assert (own.seed, own.verify) == (0, False)


def test_a_scope_ends_on_an_exception() -> None:
    own = Knobs({})
    with pytest.raises(RuntimeError, match="out"), own.scope(seed=1):
        raise RuntimeError("out")
    assert own.seed == 0


def test_a_scope_is_not_seen_by_other_threads_but_an_assignment_is() -> None:
    own = Knobs({})
    own.fuel = 7
    seen: list[tuple[int, int]] = []
    with own.scope(seed=1):
        thread = threading.Thread(target=lambda: seen.append((own.seed, own.fuel)))
        thread.start()
        thread.join()
    assert seen == [(0, 7)]


def test_an_unknown_name_is_refused() -> None:
    own = Knobs({})
    unknown = pytest.raises(KnobError, match="knobs.devise='cuda'.*\n.*cache_dir")
    with unknown, own.scope(seed=1, devise="cuda"):
        pass
    assert own.seed == 0
    with pytest.raises(AttributeError):
        own.devise = "cuda"  # type: ignore[attr-defined]


def test_a_path_may_be_assigned_as_text() -> None:
    with knobs.scope(cache_dir="~/elsewhere"):
        assert knobs.cache_dir == Path.home() / "elsewhere"


def test_settings_are_equal_only_where_the_values_are() -> None:
    environment: dict[str, str] = {}
    own = Knobs(environment)
    names = ("device", "debug", "fuel")
    seen = [own.settings(names)]
    environment[PREFIX + "FUEL"] = "7"
    seen.append(own.settings(names))
    own.debug = False
    seen.append(own.settings(names))
    with own.scope(debug=True):
        seen.append(own.settings(names))
        with own.scope(device="cuda"):
            seen.append(own.settings(names))
    assert len(set(seen)) == 5 and seen[0] == (None, None, None)
    assert own.settings(names) == seen[2] == (None, False, "7")


def test_the_knobs_that_belong_into_a_cache_key() -> None:
    own = Knobs({})
    assert own.code_changing() == (("debug", "0"), ("max_tile_numel", "1048576"))
    with own.scope(debug=True, seed=5):
        assert own.code_changing() == (("debug", "1"), ("max_tile_numel", "1048576"))


def test_the_table_has_one_complete_row_a_knob() -> None:
    rows = table()
    assert [row.variable for row in rows] == [PREFIX + name.upper() for name in DEFAULTS]
    assert all(row.type and row.accepts and row.doc and "\n" not in row.doc for row in rows)
    by_name = {row.variable: row for row in rows}
    assert by_name["TILEWRIGHT_CACHE_DIR"].default == "~/.tilewright/cache"
    assert by_name["TILEWRIGHT_DEBUG"].code_changing and by_name["TILEWRIGHT_DEBUG"].default == "0"


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_the_table_says_a_default_that_the_variable_takes(name: str) -> None:
    (row,) = (row for row in table() if row.variable == PREFIX + name.upper())
    assert getattr(Knobs({row.variable: row.default}), name) == DEFAULTS[name]


@given(st.integers(min_value=1), st.sampled_from([str, hex, lambda n: f"{n:_}"]))
def test_integers_are_read_in_every_notation(number: int, spell: object) -> None:
    assert callable(spell)
    assert Knobs({"TILEWRIGHT_FUEL": spell(number)}).fuel == number


@given(st.text())
def test_any_text_is_either_a_value_or_a_knob_error(text: str) -> None:
    for name in DEFAULTS:
        own = Knobs({PREFIX + name.upper(): text})
        try:
            value = getattr(own, name)
        except KnobError as error:
            assert error.name == PREFIX + name.upper()
        else:
            assert type(value) is type(DEFAULTS[name])
