"""The encodings of values: a module each, with both directions face to face.

Each module begins with the bytes that it reads and writes, and has the same few names:

- `CODE`: the code that a stream of this encoding begins with (`CODES` where there are several).
- `suits(sample, profile)`: the plan worth a try for a sample of a column, None if the encoding cannot pay.
- `READ_COST`: what reading values costs, where that is worth mentioning.
- `encode(values, plan, encoder)`: numbers to a stream. Parts of it, and values that do not go with the encoding, are
  handed back to the encoder.
- `decode(machine, stream)`: a kernel that decodes a stream, or has the streams that it holds decoded.
- `finish(machine, stream)`: a kernel that puts the decoded parts of a stream together.
- `suits_bytes`, `encode_bytes`, `decode_bytes`, `finish_bytes`: the same for strings of bytes.
- `write`: a kernel that writes a stream into a block, for whole columns at once.

An encoding does not know the others, except that some contain packed bits (`bit_packing`). `blocks/encoder.py` and
`blocks/machine.py` know all of them; what they share is in `codes`, `plans`, `stack`, `numbers` and `byte_values`.
"""
