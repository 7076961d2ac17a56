"""LLVM to object files, and object files to addresses that can be called."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from skerry.kernels.cache import CompiledModule

__all__ = ["entry_name", "load", "optimise"]

# What only exists in a process that has imported numba, or would need the interpreter: no kernel may depend on it.
_RUNTIME_PREFIXES = ("numba_", "NRT_", "Py", "_Py")


def entry_name(kernel_name: str) -> str:
    """The C function of a kernel."""
    return f"skerry_{kernel_name}"


@functools.cache
def target_machine() -> Any:
    """The machine this process runs on, at the highest optimisation."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static",
        codemodel="jitdefault",
        jit=True,
    )


def optimise(module: Any, entries: frozenset[str]) -> CompiledModule:
    """Optimise a module as a whole and compile it.

    Everything but the entry points becomes private to the module, which lets LLVM see that no kernel reports an error
    and drop the paths on which numba would raise one.

    Args:
        module: A parsed LLVM module; it is changed.
        entries: Names of the C functions to keep.

    Returns:
        The object file.

    Raises:
        TypeError: A kernel allocates or raises, and so needs numba at run time.
    """
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in entries:
            value.linkage = "internal"
    tuning = llvm.create_pipeline_tuning_options(3)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = tuning.loop_unrolling = True
    builder = llvm.create_pass_builder(target_machine(), tuning)
    builder.getModulePassManager().run(module, builder)
    inner = [value for value in (*module.functions, *module.global_variables) if value.linkage == llvm.Linkage.internal]
    for number, value in enumerate(inner):
        value.name = f"inner_{number}"  # numba's names are hundreds of characters long
    external = tuple(
        sorted(
            value.name
            for value in (*module.functions, *module.global_variables)
            if value.is_declaration and not value.name.startswith("llvm.")
        )
    )
    runtime = [name for name in external if name.startswith(_RUNTIME_PREFIXES)]
    if runtime:
        raise TypeError(f"a kernel of {sorted(entries)} allocates or raises: its machine code needs {runtime}")
    return CompiledModule(target_machine().emit_object(module), external)


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
