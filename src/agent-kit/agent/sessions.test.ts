import { mkdtempSync, mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { listSessions } from "./sessions.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-sessions-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function write(project: string, id: string, lines: readonly (object | string)[], at: number): void {
  mkdirSync(join(folder, "projects", project), { recursive: true });
  const file = join(folder, "projects", project, `${id}.jsonl`);
  writeFileSync(file, lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n"));
  utimesSync(file, at, at);
}

const user = (content: unknown, more: object = {}) => ({ type: "user", message: { role: "user", content }, ...more });

describe("listSessions", () => {
  it("lists conversations, the newest first, with a title or how they began", async () => {
    write("-home-a", "one", [user("hello", { cwd: "/home/a" }), { type: "ai-title", aiTitle: "Greeting" }], 100);
    write("-home-b", "two", ["not json", user([{ type: "text", text: "hi" }])], 200);
    write("-home-b", "empty", [{ type: "summary", summary: "nothing" }], 300);
    const env = { CLAUDE_CONFIG_DIR: folder };
    expect(await listSessions({ env })).toEqual([
      { sessionId: "two", summary: "hi", firstPrompt: "hi", cwd: undefined, lastModified: new Date(200_000) },
      { sessionId: "one", summary: "Greeting", firstPrompt: "hello", cwd: "/home/a", lastModified: new Date(100_000) },
    ]);
    expect((await listSessions({ env, cwd: "/home/a" })).map(({ sessionId }) => sessionId)).toEqual(["one"]);
    expect((await listSessions({ env, limit: 1 })).map(({ sessionId }) => sessionId)).toEqual(["two"]);
  });

  it("is empty where the CLI has stored nothing", async () => {
    expect(await listSessions({ env: { CLAUDE_CONFIG_DIR: join(folder, "none") } })).toEqual([]);
  });
});
