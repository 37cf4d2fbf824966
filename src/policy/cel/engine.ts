import { createRequire } from "node:module";

import type * as Cel from "@marcbachmann/cel-js";
import type * as Regex from "re2js";

const load = createRequire(import.meta.url);
let cel: typeof Cel | undefined;
let regex: typeof Regex | undefined;

/** The CEL implementation; loaded when a policy first needs it, for it would cost every other start its time. */
export function celEngine(): typeof Cel {
  return (cel ??= load("@marcbachmann/cel-js") as typeof Cel);
}

/** Regular expressions that take linear time, whatever the pattern and the text. */
export function re2Engine(): typeof Regex {
  return (regex ??= load("re2js") as typeof Regex);
}
