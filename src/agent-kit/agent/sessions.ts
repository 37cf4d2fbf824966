import { open, readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join } from "node:path";

import { isObject } from "../../lib/is-object.ts";
import type { UnknownRecord } from "../json-rpc.ts";

/** A conversation that the CLI has stored; `resume` continues it. */
export interface SessionInfo {
  readonly sessionId: string;
  /** Its title, or how it began. */
  readonly summary: string;
  readonly firstPrompt: string | undefined;
  /** The folder that it ran in. */
  readonly cwd: string | undefined;
  readonly lastModified: Date;
}

/** Options of `listSessions`. */
export interface ListSessionsOptions {
  /** Only conversations of this folder. */
  readonly cwd?: string;
  /** The newest ones only. */
  readonly limit?: number;
  /** The environment of the CLI; that of this process by default. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** How much is read at each end of a conversation; one can be as long as a book. */
const partBytes = 64 * 1024;

/**
 * Lists the conversations that the CLI has stored, the newest first. A file that cannot be read is left out.
 *
 * @example
 * ```ts
 * const [latest] = await listSessions({ cwd: process.cwd(), limit: 1 });
 * const agent = await startAgent({ resume: latest?.sessionId, forkSession: true });
 * ```
 */
export async function listSessions({ cwd, limit, env = process.env }: ListSessionsOptions = {}): Promise<
  readonly SessionInfo[]
> {
  const projects = join(env["CLAUDE_CONFIG_DIR"] ?? join(env["HOME"] ?? homedir(), ".claude"), "projects");
  const folders = cwd === undefined ? await namesIn(projects) : [cwd.replaceAll(/[^A-Za-z0-9]/gu, "-")];
  const found: SessionInfo[] = [];
  for (const folder of folders) {
    for (const name of await namesIn(join(projects, folder))) {
      const info = name.endsWith(".jsonl") ? await readSession(join(projects, folder, name)) : undefined;
      if (info !== undefined) found.push(info);
    }
  }
  return found
    .toSorted((one, other) => other.lastModified.getTime() - one.lastModified.getTime())
    .slice(0, limit ?? found.length);
}

async function namesIn(folder: string): Promise<readonly string[]> {
  // Without the folder there are no conversations.
  return readdir(folder).catch(() => []);
}

async function readSession(file: string): Promise<SessionInfo | undefined> {
  try {
    await using handle = await open(file);
    const { size, mtime } = await handle.stat();
    const head = await handle.read({ buffer: Buffer.alloc(Math.min(size, partBytes)), position: 0 });
    const tail = await handle.read({
      buffer: Buffer.alloc(Math.min(size, partBytes)),
      position: Math.max(0, size - partBytes),
    });
    const first = linesOf(head.buffer.toString("utf8", 0, head.bytesRead));
    const last = linesOf(tail.buffer.toString("utf8", 0, tail.bytesRead));
    const firstPrompt = first.map(promptOf).find((text) => text !== undefined);
    // A conversation without a prompt never began.
    if (firstPrompt === undefined) return undefined;
    const title = [...first, ...last].map(titleOf).findLast((text) => text !== undefined);
    return {
      sessionId: basename(file, ".jsonl"),
      summary: title ?? firstPrompt,
      firstPrompt,
      cwd: first.map(({ cwd }) => cwd).find((value) => typeof value === "string"),
      lastModified: mtime,
    };
  } catch {
    // Gone meanwhile, or not readable.
    return undefined;
  }
}

/** The complete lines of a part of a file; lines cut at its ends are not JSON. */
function linesOf(text: string): readonly UnknownRecord[] {
  return text.split("\n").flatMap((line) => {
    try {
      const value: unknown = JSON.parse(line);
      return isObject(value) ? [value] : [];
    } catch {
      return [];
    }
  });
}

function promptOf({ type, isMeta, message }: UnknownRecord): string | undefined {
  if (type !== "user" || isMeta === true || !isObject(message)) return undefined;
  const { content } = message;
  if (typeof content === "string") return content;
  const block: unknown = Array.isArray(content)
    ? content.find((one: unknown) => isObject(one) && one["type"] === "text")
    : undefined;
  return isObject(block) && typeof block["text"] === "string" ? block["text"] : undefined;
}

function titleOf(line: UnknownRecord): string | undefined {
  const title = line["customTitle"] ?? line["aiTitle"] ?? (line["type"] === "summary" ? line["summary"] : undefined);
  return typeof title === "string" ? title : undefined;
}
