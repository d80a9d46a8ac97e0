"""PTX as LLVM writes it: compiled here from LLVM IR, parsed, and run."""

import io

import llvmlite.binding as llvm
import numpy as np
import pytest

from tilewright.interpreter import Buffer, MemoryAccessError
from tilewright.interpreter.ptx import load_ptx, run_ptx

TRIPLE = "nvptx64-nvidia-cuda"


def compiled(ir: str, cpu: str) -> str:
    """The PTX of an LLVM module."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(cpu=cpu, features="+ptx88", opt=3, reloc="default", codemodel="default")
    head = f'target triple = "{TRIPLE}"\ntarget datalayout = "{machine.target_data}"\n'
    module = llvm.parse_assembly(head + ir, llvm.create_context())
    module.verify()
    return machine.emit_assembly(module)


INDEX = """
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x(), !dbg !10
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x(), !dbg !10
  %n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x(), !dbg !10
  %m = mul i32 %b, %n, !dbg !10
  %i = add i32 %m, %t, !dbg !10
"""
DECLARATIONS = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
"""
DEBUG = """
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!1}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !3, producer: "x", isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)
!1 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DIFile(filename: "shop.add", directory: "")
!4 = distinct !DISubprogram(name: "k", linkageName: "k", scope: !3, file: !3, line: 7, type: !5, scopeLine: 7, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !0)
!5 = !DISubroutineType(types: !6)
!6 = !{}
!10 = !DILocation(line: 9, column: 5, scope: !4)
!11 = !DILocation(line: 12, column: 9, scope: !4)
"""  # noqa: E501

ADD = DECLARATIONS + """
define ptx_kernel void @k(
  ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %y, ptr addrspace(1) align 16 %z) !dbg !4 {
""" + INDEX + """
  %j = shl i32 %i, 2, !dbg !10
  %px = getelementptr float, ptr addrspace(1) %x, i32 %j, !dbg !10
  %py = getelementptr float, ptr addrspace(1) %y, i32 %j, !dbg !10
  %pz = getelementptr float, ptr addrspace(1) %z, i32 %j, !dbg !10
  %a = load <4 x float>, ptr addrspace(1) %px, align 16, !dbg !10
  %c = load <4 x float>, ptr addrspace(1) %py, align 16, !dbg !10
  %s = fadd <4 x float> %a, %c, !dbg !10
  store <4 x float> %s, ptr addrspace(1) %pz, align 16, !dbg !11
  ret void, !dbg !10
}
""" + DEBUG  # fmt: skip


@pytest.mark.parametrize("cpu", ["sm_80", "sm_90a", "sm_100a"])
def test_vector_add_of_many_blocks(cpu: str) -> None:
    text = compiled(ADD, cpu)
    assert "ld.global.v" in text
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 4096 * 128 * 4), np.float32)
    z = np.zeros_like(x)
    buffers = [Buffer.of(name, array) for name, array in (("x", x), ("y", y), ("z", z))]
    counters = run_ptx(load_ptx(text), "k", (4096,), (128,), buffers)
    assert np.array_equal(z, x + y)
    assert counters.threads["load"] == 4096 * 128 * 5 and counters.warps["store"] == 4096 * 4


def test_a_fault_names_the_line_of_the_source() -> None:
    x, y, z = np.zeros(512, np.float32), np.zeros(512, np.float32), np.zeros(500, np.float32)
    buffers = [Buffer.of(name, array) for name, array in (("x", x), ("y", y), ("z", z))]
    with pytest.raises(MemoryAccessError, match=r"^shop.add:12:9: store of 16 bytes .* element 500 of z \(float32, "):
        run_ptx(load_ptx(compiled(ADD, "sm_90a")), "k", (1,), (128,), buffers)


def elementwise(code: str, kind: str, result: str, cpu: str, *operands: np.ndarray) -> np.ndarray:
    """Run LLVM instructions on %a0, %a1, ... of LLVM type `kind`, that set %r of type `result`."""
    numpy_type = {"i8": "u1", "i16": "u2", "i32": "u4", "i64": "u8", "half": "f2", "float": "f4", "double": "f8"}
    out = np.zeros(len(operands[0]), numpy_type.get(result, "u2"))
    parameters = ", ".join(f"ptr addrspace(1) %p{k}" for k in range(len(operands)))
    loads = "".join(
        f"%q{k} = getelementptr {kind}, ptr addrspace(1) %p{k}, i32 %i\n%a{k} = load {kind}, ptr addrspace(1) %q{k}\n"
        for k in range(len(operands))
    )
    store = f"%o = getelementptr {result}, ptr addrspace(1) %out, i32 %i\nstore {result} %r, ptr addrspace(1) %o\n"
    declared = "".join(sorted({line.strip() + "\n" for line in code.splitlines() if line.startswith("declare")}))
    body = "\n".join(line for line in code.splitlines() if not line.startswith("declare"))
    head = f"define ptx_kernel void @k({parameters}, ptr addrspace(1) %out) {{\n{INDEX.replace(', !dbg !10', '')}"
    text = compiled(f"{DECLARATIONS}{declared}{head}{loads}{body}\n{store}ret void }}", cpu)
    buffers = [Buffer.of(f"p{k}", x) for k, x in enumerate(operands)] + [Buffer.of("out", out)]
    run_ptx(load_ptx(text), "k", (len(out) // 32,), (32,), buffers)
    return out


CPUS = ["sm_80", "sm_90a"]
X = np.concatenate([np.linspace(-9, 9, 60), [0.0, -0.0, np.inf, -np.inf]])


@pytest.mark.parametrize("cpu", CPUS)
def test_integer_code(cpu: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 1 << 32, (2, 64)).astype(np.uint32)
    b |= 1
    signed_a, signed_b = a.view(np.int32).astype(np.int64), b.view(np.int32).astype(np.int64)
    code = "%d = sdiv i32 %a0, %a1\n%e = srem i32 %a0, %a1\n%f = mul i32 %d, 3\n%r = xor i32 %e, %f"
    quotient = np.trunc(signed_a / signed_b).astype(np.int64)
    want = (signed_a - quotient * signed_b) ^ (quotient * 3)
    assert np.array_equal(elementwise(code, "i32", "i32", cpu, a, b), want.astype(np.uint32))
    code = "%z = zext i32 %a0 to i64\n%y = zext i32 %a1 to i64\n%w = mul i64 %z, %y\n"
    code += "%h = lshr i64 %w, 32\n%r = trunc i64 %h to i32"
    assert np.array_equal(elementwise(code, "i32", "i32", cpu, a, b), (a.astype(np.uint64) * b >> 32).astype(np.uint32))
    code = "declare i32 @llvm.fshl.i32(i32, i32, i32)\n%r = call i32 @llvm.fshl.i32(i32 %a0, i32 %a1, i32 7)"
    assert np.array_equal(elementwise(code, "i32", "i32", cpu, a, b), (a << 7) | (b >> 25))
    code = "declare i32 @llvm.ctpop.i32(i32)\ndeclare i32 @llvm.ctlz.i32(i32, i1)\n"
    code += "%p = call i32 @llvm.ctpop.i32(i32 %a0)\n%q = call i32 @llvm.ctlz.i32(i32 %a1, i1 false)\n"
    code += "%r = add i32 %p, %q"
    want = [int(x).bit_count() + 32 - int(y).bit_length() for x, y in zip(a, b, strict=True)]
    assert elementwise(code, "i32", "i32", cpu, a, b).tolist() == want


@pytest.mark.parametrize("cpu", CPUS)
def test_narrow_integers(cpu: str) -> None:
    a, b = (np.arange(64) * 37).astype(np.uint8), (np.arange(64) * 11 + 1).astype(np.uint8)
    got = elementwise("%s = add i8 %a0, %a1\n%r = ashr i8 %s, 2", "i8", "i8", cpu, a, b)
    assert np.array_equal(got.view(np.int8), (a + b).view(np.int8) >> 2)
    got = elementwise("%c = icmp slt i8 %a0, %a1\n%r = select i1 %c, i8 %a0, i8 %a1", "i8", "i8", cpu, a, b)
    assert np.array_equal(got.view(np.int8), np.minimum(a.view(np.int8), b.view(np.int8)))


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(("kind", "dtype"), [("half", np.float16), ("float", np.float32), ("double", np.float64)])
def test_float_code(kind: str, dtype: type, cpu: str) -> None:
    a, b = X.astype(dtype), X[::-1].astype(dtype)
    for name, rule in (("fadd", np.add), ("fsub", np.subtract), ("fmul", np.multiply), ("fdiv", np.divide)):
        got = elementwise(f"%r = {name} {kind} %a0, %a1", kind, kind, cpu, a, b)
        with np.errstate(all="ignore"):
            assert np.array_equal(got, rule(a, b), equal_nan=True), name
    with np.errstate(invalid="ignore"):
        got = elementwise(
            f"%c = fcmp olt {kind} %a0, %a1\n%r = select i1 %c, {kind} %a0, {kind} %a1", kind, kind, cpu, a, b
        )
        assert np.array_equal(got, np.where(a < b, a, b))


@pytest.mark.parametrize("cpu", CPUS)
def test_bfloat_code(cpu: str) -> None:
    bits = np.arange(0x3F00, 0x3F40, dtype=np.uint16)
    value = (bits.astype(np.uint32) << 16).view(np.float32)
    got = elementwise("%r = fmul bfloat %a0, %a1", "bfloat", "bfloat", cpu, bits, bits)
    exact = value.astype(np.float64) ** 2
    code = exact.astype(np.float32).view(np.uint32)  # products of two 8-bit significands are exact in f32
    assert np.array_equal(got, ((code + 0x7FFF + (code >> 16 & 1)) >> 16).astype(np.uint16))
    wide = elementwise("%r = fpext bfloat %a0 to float", "bfloat", "float", cpu, bits)
    assert np.array_equal(wide, value)


@pytest.mark.parametrize("cpu", CPUS)
def test_conversions_and_functions(cpu: str) -> None:
    x = X.astype(np.float32)
    got = elementwise("%h = fptrunc float %a0 to half\n%r = fpext half %h to float", "float", "float", cpu, x)
    assert np.array_equal(got, x.astype(np.float16).astype(np.float32))
    code = "declare i32 @llvm.fptosi.sat.i32.f32(float)\n%r = call i32 @llvm.fptosi.sat.i32.f32(float %a0)"
    with np.errstate(invalid="ignore"):
        want = np.clip(x.astype(np.float64), -(2.0**31), 2.0**31 - 1).astype(np.int64).astype(np.int32)
    assert np.array_equal(elementwise(code, "float", "i32", cpu, x).view(np.int32), want)
    code = "declare float @llvm.sqrt.f32(float)\ndeclare float @llvm.floor.f32(float)\n"
    code += "%s = call float @llvm.sqrt.f32(float %a0)\n%f = call float @llvm.floor.f32(float %a0)\n"
    code += "%c = fcmp ogt float %a0, 0.0\n%r = select i1 %c, float %s, float %f"
    with np.errstate(invalid="ignore"):
        want = np.where(x > 0, np.sqrt(x), np.floor(x))
    assert np.array_equal(elementwise(code, "float", "float", cpu, x), want)
    code = "declare float @llvm.exp2.f32(float)\n%r = call float @llvm.exp2.f32(float %a0)"
    assert np.array_equal(elementwise(code, "float", "float", cpu, x), np.exp2(x.astype(np.float64)).astype(np.float32))


LOOP = DECLARATIONS + """
define ptx_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
entry:
""" + INDEX.replace(", !dbg !10", "") + """
  %start = add i32 %i, 1
  br label %head
head:
  %x = phi i32 [ %start, %entry ], [ %next, %join ]
  %steps = phi i32 [ 0, %entry ], [ %more, %join ]
  %done = icmp eq i32 %x, 1
  br i1 %done, label %exit, label %body
body:
  %low = and i32 %x, 1
  %odd = icmp eq i32 %low, 1
  br i1 %odd, label %up, label %down
up:
  %tripled = mul i32 %x, 3
  %u = add i32 %tripled, 1
  br label %join
down:
  %d = lshr i32 %x, 1
  br label %join
join:
  %next = phi i32 [ %u, %up ], [ %d, %down ]
  %more = add i32 %steps, 1
  br label %head
exit:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %steps, ptr addrspace(1) %p
  ret void
}
"""  # fmt: skip


def collatz(n: int) -> int:
    steps = 0
    while n != 1:
        n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
    return steps


def test_a_loop() -> None:
    out = np.zeros(256, np.uint32)
    buffers = [Buffer.of("in", out.copy()), Buffer.of("out", out)]
    run_ptx(load_ptx(compiled(LOOP, "sm_90a")), "k", (4,), (64,), buffers)
    assert out.tolist() == [collatz(i + 1) for i in range(256)]


ASSEMBLY = DECLARATIONS + """
@sm = external addrspace(3) global [0 x i8], align 1024
declare i32 @vprintf(ptr, ptr)
@fmt = private unnamed_addr constant [6 x i8] c"s=%d\\0A\\00"
define ptx_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
""" + INDEX.replace(", !dbg !10", "") + """
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %i
  %c = icmp slt i32 %i, 60
  %v = call i32 asm sideeffect "mov.u32 $0, 0x0;\\0A\\09@$2 ld.global.L1::evict_last.b32 $0, [$1];", "=&r,l,b"(ptr addrspace(1) %p, i1 %c)
  %s = call i32 asm sideeffect "{ .reg .b32 %x;\\0A\\09shfl.sync.bfly.b32 %x, $1, 1, 31, -1;\\0A\\09add.s32 $0, %x, $1; }", "=r,r"(i32 %v) convergent
  %q = getelementptr i32, ptr addrspace(3) @sm, i32 %t
  store i32 %s, ptr addrspace(3) %q
  call void asm sideeffect "bar.sync 0;", "~{memory}"() convergent
  %o = xor i32 %t, 63
  %w = getelementptr i32, ptr addrspace(3) @sm, i32 %o
  %l = load i32, ptr addrspace(3) %w
  %old = call i32 asm sideeffect "atom.acq_rel.gpu.global.add.u32 $0, [$1], $2;", "=r,l,r,~{memory}"(ptr addrspace(1) %out, i32 %l)
  %first = icmp eq i32 %t, 0
  br i1 %first, label %print, label %end
print:
  %al = alloca i32
  store i32 %l, ptr %al
  %r = call i32 @vprintf(ptr @fmt, ptr %al)
  br label %end
end:
  ret void
}
"""  # fmt: skip  # noqa: E501


def test_inline_assembly_shared_memory_and_prints() -> None:
    values, out, text = np.arange(64, dtype=np.uint32), np.zeros(1, np.uint32), io.StringIO()
    buffers = [Buffer.of("in", values), Buffer.of("out", out)]
    run_ptx(load_ptx(compiled(ASSEMBLY, "sm_90a")), "k", (1,), (64,), buffers, shared_bytes=256, stdout=text)
    assert out[0] == 2 * sum(range(60)) and text.getvalue() == "s=0\n"
