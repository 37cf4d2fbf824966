import fc from "fast-check";

/** Any well-formed text: every code point but the halves of surrogate pairs, with the troublesome ones more often. */
export const anyText: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      fc.integer({ min: 0, max: 0xd7ff }),
      fc.integer({ min: 0xe000, max: 0x10ffff }),
      fc.constantFrom(...Buffer.from('=?base64 \t\r\n\0\\"~/%')),
      fc.constant(0xfeff),
    ),
    { maxLength: 12 },
  )
  .map((points) => String.fromCodePoint(...points));
