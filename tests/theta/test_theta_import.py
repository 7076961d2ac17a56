"""What a fresh process pays for: reading statistics needs neither numba nor LLVM, and not even a kernel."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from skerry.theta import Sample, ThetaSketch, difference, intersection, jaccard, union

data = bytes.fromhex(sys.argv[1])
sketch = ThetaSketch.deserialize(data)
sample = Sample.deserialize(data)
both = union([sketch, sample.merge(Sample.deserialize(data)).to_sketch()])
assert both.estimate() == 3 and both.bounds(2) == (3, 3) and both.serialize() == data
assert intersection([sketch, both]).estimate() == 3 and difference(sketch, both).is_empty
assert jaccard(sketch, both) == (1, 1, 1) and ThetaSketch().is_empty and Sample().serialize()
loaded = {name.partition(".")[0] for name in sys.modules} & {"numba", "llvmlite"}
assert not loaded, loaded
"""


UPDATE = """
import sys
import numpy as np
from skerry.theta import ThetaSketch

assert ThetaSketch().update(np.arange(10)).update(np.ones(3, np.float32)).estimate() == 11
assert "pandas" not in sys.modules
"""


def test_numbers_are_taken_without_pandas():
    subprocess.run([sys.executable, "-c", UPDATE], check=True)


def test_statistics_are_read_without_numba_and_llvm():
    from skerry.theta import Sample

    data = Sample().update([1, 2, 3]).to_sketch().serialize()
    subprocess.run([sys.executable, "-c", PROGRAM, data.hex()], check=True)
