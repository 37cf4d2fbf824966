import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { parseCommandLine, type OptionTable } from "../../src/cli/command-line.ts";
import { commands, isCommandName } from "../../src/cli/commands.ts";
import { loadConfig } from "../../src/config/load.ts";

const root = resolve(import.meta.dirname, "../..");
const pages = ["README.md", "CONTRIBUTING.md", ...globSync("docs/**/*.md", { cwd: root }).toSorted()].map((file) => ({
  file,
  text: readFileSync(join(root, file), "utf8"),
}));

function fences(text: string, language: string): string[] {
  const fence = new RegExp(`^\`\`\`${language}\n(?<code>[^]*?)^\`\`\`$`, "gmu");
  return [...text.matchAll(fence)].map(({ groups }) => groups?.["code"] ?? "");
}

/** The words of a command line as a shell would make them, as far as the pages go. */
function wordsOf(line: string): string[] {
  const [own = ""] = line.split(/ (?:[|>]|#) ?/u);
  return [...own.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/gu)].map(([word]) => word.replaceAll(/['"]/gu, ""));
}

/** Every call of our own command: in shell blocks, in code within the text, and in configurations of clients. */
function callsIn(text: string): string[][] {
  const shell = fences(text, "sh").flatMap((code) => code.split("\n"));
  const inline = [...text.matchAll(/`(?<code>headgate [a-z][^`]*)`/gu)].map(({ groups }) => groups?.["code"] ?? "");
  const typed = [...shell, ...inline].flatMap((line) => {
    const call = /(?:^|-- )(?:headgate|npx headgate|npm run -s headgate --) (?<rest>[a-z].*)$/u.exec(line);
    return call?.groups?.["rest"] === undefined ? [] : [wordsOf(call.groups["rest"])];
  });
  const configured = [...text.matchAll(/"command": "headgate",\s*"args": (?<args>\[[^\]]*\])/gu)].map(
    ({ groups }) => JSON.parse(groups?.["args"] ?? "[]") as string[],
  );
  return [...typed, ...configured];
}

const calls = pages.flatMap(({ file, text }) => callsIn(text).map((words) => ({ file, words })));
const configurations = pages.flatMap(({ file, text }) => [
  ...fences(text, "yaml").map((code) => ({ file, code, format: "yaml" as const })),
  ...fences(text, "json")
    .filter((code) => code.includes('"mcpServers"'))
    .map((code) => ({ file, code, format: "json" as const })),
]);

describe("the guides", () => {
  it("have commands and configurations to check", () => {
    expect(calls.length).toBeGreaterThan(20);
    expect(configurations.length).toBeGreaterThan(4);
  });

  it.each(calls)("of $file have a command line that is understood: $words", ({ words }) => {
    const [name = "", ...args] = words;
    expect(isCommandName(name)).toBe(true);
    const options: OptionTable = isCommandName(name) ? commands[name].options : {};
    expect(parseCommandLine(options, args)).toMatchObject({ ok: true });
  });

  it.each(configurations)("of $file have a configuration that loads: $code", async ({ code, format }) => {
    const named = [...code.matchAll(/\$\{(?:env:)?(?<name>\w+)/gu)].map(({ groups }) => groups?.["name"] ?? "");
    const result = await loadConfig({
      text: code,
      format,
      env: Object.fromEntries(named.map((name) => [name, name === "RECORD_URL" ? "postgres://value" : "value"])),
      readFile: () => Promise.resolve("a secret that is long enough for any use"),
      // The configurations of clients lead to a gateway at the default port.
      ...(format === "json" ? { overrides: { listen: { port: 0 } } } : {}),
    });
    expect(result.ok ? [] : result.problems).toEqual([]);
    // A rule that can never match teaches a mistake.
    expect(result.ok && result.warnings.filter(({ message }) => message.includes("`principal."))).toEqual([]);
  });
});
