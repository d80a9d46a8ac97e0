from hypothesis import given, settings
import pytest
from tests.lang.ir_strategies import *
from tilewright.lang import *
@given(modules())
def test_a(m):
    verify(m); p=print_module(m); m2=parse_module(p); assert print_module(m2)==p; assert structurally_equal(m,m2)
@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=5)
@given(data=st.data())
def test_b(name,data):
    m=data.draw(modules(rows=[name],size=1))
    verify(m); p=print_module(m); m2=parse_module(p); assert print_module(m2)==p; assert structurally_equal(m,m2)
    assert any(o.name==name for o in m.walk())
