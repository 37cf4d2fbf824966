import type { Environment } from "../config/substitute.ts";
import { isTty } from "./prompt.ts";

/** Functions that color text, or return it unchanged. */
export type Colors = Readonly<Record<"red" | "green" | "yellow" | "cyan" | "dim" | "bold", (text: string) => string>>;

const ansiCodes = {
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
  dim: [2, 22],
  bold: [1, 22],
} as const;

/** Colors for standard output: on for a terminal, unless NO_COLOR is set (no-color.org). */
export function colorsFor({
  stdout,
  env,
}: {
  readonly stdout?: object | undefined;
  readonly env: Environment;
}): Colors {
  const noColor = env["NO_COLOR"];
  return createColors(isTty(stdout) && (noColor === undefined || noColor === "") && env["TERM"] !== "dumb");
}

/** Colors that are on or off. */
export function createColors(isOn: boolean): Colors {
  const wrap = (name: keyof typeof ansiCodes) => {
    const [on, off] = ansiCodes[name];
    return (text: string): string => (isOn ? `\u001B[${on}m${text}\u001B[${off}m` : text);
  };
  return {
    red: wrap("red"),
    green: wrap("green"),
    yellow: wrap("yellow"),
    cyan: wrap("cyan"),
    dim: wrap("dim"),
    bold: wrap("bold"),
  };
}
