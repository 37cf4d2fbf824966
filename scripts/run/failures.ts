import { relative } from "node:path";

/** Long enough for a message, a diff and the line of the test; a whole report would bury the next failure. */
const linesPerFailure = 25;

/**
 * The failed tests of a vitest JSON report, each with its file, its name and the head of its message, and the files
 * that could not be loaded. Empty where the report names no failure, so that the caller shows the output instead.
 */
export function failuresOf(report: unknown, root: string): readonly string[] {
  return listOf(report, "testResults").flatMap((file) => {
    if (textOf(file, "status") !== "failed") return [];
    const path = relative(root, textOf(file, "name"));
    const tests = listOf(file, "assertionResults");
    if (tests.length === 0) return [inLines(path, textOf(file, "message"))];
    return tests
      .filter((test) => textOf(test, "status") === "failed")
      .map((test) =>
        inLines(`${path} > ${textOf(test, "fullName")}`, listOf(test, "failureMessages").map(String).join("\n")),
      );
  });
}

function inLines(title: string, message: string): string {
  const lines = message.trimEnd().split("\n");
  const left = lines.length - linesPerFailure;
  const shown = left > 0 ? [...lines.slice(0, linesPerFailure), `… ${left} more lines`] : lines;
  return [`FAILED ${title}`, ...shown.map((line) => `  ${line}`)].join("\n");
}

function listOf(value: unknown, name: string): readonly unknown[] {
  const list = memberOf(value, name);
  return Array.isArray(list) ? list : [];
}

function textOf(value: unknown, name: string): string {
  const text = memberOf(value, name);
  return typeof text === "string" ? text : "";
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
