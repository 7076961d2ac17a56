"""LLVM to bitcode for all processors, bitcode to object files for this one, and these to addresses to be called."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from skerry.kernels.cache import CompiledModule

__all__ = ["entry_name", "load", "optimise", "simplify"]

# What only exists in a process that has imported numba, or would need the interpreter: no kernel may depend on it.
_RUNTIME_PREFIXES = ("numba_", "NRT_", "Py", "_Py")


_LARGE_BYTES = 100_000
"""Loops of a module of more bitcode are not unrolled: one third less to compile, and its kernels are as fast."""


def entry_name(kernel_name: str) -> str:
    """The C function of a kernel."""
    return f"skerry_{kernel_name}"


@functools.cache
def target_machine(*, is_host: bool = True) -> Any:
    """The machine this process runs on, or any of its architecture, at the highest optimisation."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name() if is_host else "",
        features=llvm.get_host_cpu_features().flatten() if is_host else "",
        opt=3,
        reloc="static",
        codemodel="jitdefault",
        jit=True,
    )


def simplify(module: Any, entries: frozenset[str]) -> bytes:
    """Optimise a module as a whole, as far as no processor matters.

    Everything but the entry points becomes private to the module, which lets LLVM see that no kernel reports an error
    and drop the paths on which numba would raise one.

    Args:
        module: A parsed LLVM module; it is changed.
        entries: Names of the C functions to keep.

    Returns:
        Bitcode, a fraction of what numba made.

    Raises:
        TypeError: A kernel allocates or raises, and so needs numba at run time.
    """
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in entries:
            value.linkage = "internal"
    _run_passes(module, is_host=False)
    inner = [value for value in (*module.functions, *module.global_variables) if value.linkage == llvm.Linkage.internal]
    for number, value in enumerate(inner):
        value.name = f"inner_{number}"  # numba's names are hundreds of characters long
    runtime = [name for name in _external_symbols(module) if name.startswith(_RUNTIME_PREFIXES)]
    if runtime:
        raise TypeError(f"a kernel of {sorted(entries)} allocates or raises: its machine code needs {runtime}")
    return bytes(module.as_bitcode())


def optimise(bitcode: bytes) -> CompiledModule:
    """Compile bitcode for this processor.

    Raises:
        ValueError: LLVM does not read the bitcode, or it is for another architecture.
    """
    try:
        module = llvm.parse_bitcode(bitcode)
    except RuntimeError as error:
        raise ValueError(f"not bitcode of this LLVM: {error}") from None
    if module.triple != llvm.get_process_triple():
        raise ValueError(f"bitcode for {module.triple}, not for {llvm.get_process_triple()}")
    _run_passes(module, is_host=True, unrolls=len(bitcode) < _LARGE_BYTES)
    return CompiledModule(target_machine().emit_object(module), _external_symbols(module))


def _run_passes(module: Any, *, is_host: bool, unrolls: bool = False) -> None:
    """Optimise a module; loops are left as they are where the processor's registers are not known."""
    tuning = llvm.create_pipeline_tuning_options(3)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = is_host
    tuning.loop_unrolling = unrolls
    builder = llvm.create_pass_builder(target_machine(is_host=is_host), tuning)
    builder.getModulePassManager().run(module, builder)


def _external_symbols(module: Any) -> tuple[str, ...]:
    """What a module expects to find in the process."""
    values = (*module.functions, *module.global_variables)
    return tuple(sorted(value.name for value in values if value.is_declaration and not value.name.startswith("llvm.")))


def load(module: CompiledModule, kernel_names: list[str]) -> dict[str, int] | None:
    """Place an object file in memory, for as long as the process lives.

    Args:
        module: The object file.
        kernel_names: The kernels in it.

    Returns:
        The address of each kernel, or None if the object file does not fit this process.
    """
    if not all(llvm.address_of_symbol(name) for name in module.external_symbols):
        return None
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(module.object_code))
    engine.finalize_object()
    _ENGINES.append(engine)
    addresses = {name: engine.get_function_address(entry_name(name)) for name in kernel_names}
    return addresses if all(addresses.values()) else None


_ENGINES: list[Any] = []  # an engine owns the memory of its functions
