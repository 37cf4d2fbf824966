import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { GatewayError } from "../../errors.ts";
import type { HeldView, HoldDecision } from "../../gateway/admin/endpoints/holds.ts";
import { canonicalText, ExactNumber, parseExactJson } from "../../lib/canonical-json.ts";
import { isObject } from "../../lib/is-object.ts";
import { type EditResult, removeAt, setAt } from "../../protocol/json/edit.ts";
import { pointerStep } from "../../protocol/json/read.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import { withoutUndefined } from "../../lib/without-undefined.ts";
import { isTty, type ServingIo } from "../io.ts";
import { printable } from "../text-layout.ts";
import { findGateway, followGateway, postToGateway, type RunningGateway } from "./admin-client.ts";

/** Lines of a message that are shown at once. */
const shownLines = 20;

/** `headgate intercept FILTER`: holds matching messages of a running gateway and asks what to do with each. */
export const intercept = defineCommand("intercept", async ({ values, positionals }, io: ServingIo) => {
  if (positionals.length === 0)
    throw new UsageError("expected a FILTER, such as `tool:delete_*`; `~a` holds everything");
  const { timeout, "on-timeout": onTimeout } = values;
  const gateway = await findGateway("intercept", values.url, io);
  if (gateway === undefined) return exitCodes.unreachable.code;
  const query = new URLSearchParams(withoutUndefined({ filter: positionals.join(" "), timeout, onTimeout }));
  const ended = new AbortController();
  void io.stopped().then(() => {
    ended.abort();
  });
  const desk = new Desk(gateway, io);
  // Not before the gateway has taken the filter: it may refuse it.
  let asking: Promise<void> | undefined;
  const begin = (): void => {
    desk.open(query.get("filter") ?? "");
    asking = desk.ask(ended.signal).finally(() => {
      ended.abort();
    });
  };
  try {
    const events = followGateway(gateway, `/holds/events?${query.toString()}`, ended.signal);
    for await (const { event, data } of events) {
      // The gateway is ours, and of the same version or it would not have our token.
      if (event === "open") begin();
      else if (event === "held") desk.add(data as HeldView);
      else if (event === "released") desk.remove((data as { readonly id: string }).id);
    }
  } catch (error) {
    // Everything else is the end of the stream, by us or by the gateway.
    if (error instanceof GatewayError) {
      ended.abort();
      throw error;
    }
  }
  const isByHand = ended.signal.aborted;
  ended.abort();
  await asking;
  io.out(isByHand ? "stopped holding; held messages were released\n" : "the gateway has ended\n");
  return isByHand ? exitCodes.ok.code : exitCodes.failed.code;
});

/** Shows held messages to a person, one at a time. */
class Desk {
  readonly #gateway: RunningGateway;
  readonly #io: ServingIo;
  readonly #waiting = new Map<string, HeldView>();
  /** Emits when the waiting messages change. */
  readonly #changes = new EventTarget();

  constructor(gateway: RunningGateway, io: ServingIo) {
    this.#gateway = gateway;
    this.#io = io;
  }

  open(filter: string): void {
    this.#io.out(`holding messages that match ${printable(filter)}; Ctrl+C or q lets them go\n`);
  }

  add(held: HeldView): void {
    this.#waiting.set(held.id, held);
    this.#changes.dispatchEvent(new Event("change"));
  }

  remove(id: string): void {
    this.#waiting.delete(id);
    this.#changes.dispatchEvent(new Event("change"));
  }

  /** Shows one message after the other and runs the typed commands, until the end of input, `q` or the signal. */
  async ask(signal: AbortSignal): Promise<void> {
    const lines = createInterface({ input: this.#io.stdin, terminal: false });
    const typed = lines[Symbol.asyncIterator]();
    let line: Promise<IteratorResult<string>> | undefined;
    const aborted = once(signal, "abort");
    try {
      let current: HeldView | undefined;
      let isAsked = false;
      while (!signal.aborted) {
        const [next] = this.#waiting.values();
        // The prompt before is still on the last line.
        if (current !== undefined && !this.#waiting.has(current.id))
          this.#io.out(`\n${current.id} is no longer held\n`);
        if (next?.id !== current?.id) isAsked = false;
        if (next !== undefined && next.id !== current?.id) this.#show(next, shownLines);
        // Once for each answer: more messages may come while the user types.
        if (next !== undefined && !isAsked) this.#io.out(prompt);
        isAsked = next !== undefined;
        current = next;
        line ??= typed.next();
        const changed = once(this.#changes, "change", { signal });
        const first = await Promise.race([line, changed.then(toUndefined, toUndefined), aborted.then(toUndefined)]);
        if (first === undefined) continue;
        line = undefined;
        isAsked = false;
        const outcome = first.done === true ? "quit" : await this.#obey(first.value.trim(), current);
        if (outcome === "quit") return;
        if (outcome === "decided") current = undefined;
      }
    } finally {
      lines.close();
    }
  }

  async #obey(typed: string, held: HeldView | undefined): Promise<"quit" | "decided" | undefined> {
    const [word = "", ...rest] = typed.split(" ");
    const name = commandNames.find((one) => word !== "" && one.startsWith(word.toLowerCase()));
    if (name === "quit") return "quit";
    if (held === undefined) return undefined;
    if (name === "show") {
      this.#show(held, Infinity);
      return undefined;
    }
    const decision = name === undefined ? undefined : this.#decisionOf(name, rest.join(" "), held);
    if (decision === undefined) return undefined;
    const problem = await postToGateway(this.#gateway, `/holds/${encodeURIComponent(held.id)}`, decision);
    this.#io.out(problem === undefined ? `${done[decision.action]} ${held.id}\n` : `${printable(problem)}\n`);
    if (problem !== undefined) return undefined;
    this.#waiting.delete(held.id);
    return "decided";
  }

  #decisionOf(name: "release" | "edit" | "drop" | "answer", rest: string, held: HeldView): HoldDecision | undefined {
    if (name === "release") return { action: "continue" };
    if (name === "drop") return rest === "" ? { action: "block" } : { action: "block", reason: rest };
    if (name === "answer") {
      const text = rest === "" ? editText(answerTemplate, this.#io) : rest;
      const answer = text === undefined ? undefined : this.#parsed(text);
      // The API checks its form.
      return answer === undefined ? undefined : ({ action: "answer", answer } as HoldDecision);
    }
    const { text = "" } = held;
    const edited = editText(formatForEditor(text), this.#io);
    const result = edited === undefined ? undefined : applyEdit(text, edited);
    if (result?.ok === false) this.#io.out(`${printable(result.problem)}\n`);
    return result?.ok === true ? { action: "modify", text: result.bytes.toString() } : undefined;
  }

  #parsed(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      this.#io.out('an answer is JSON, such as {"result":{"content":[]}}\n');
      return undefined;
    }
  }

  #show(held: HeldView, most: number): void {
    const { id, direction, phase, method = "", target = "", route, principal, deadline, text = "" } = held;
    const lines = formatForEditor(text).trimEnd().split("\n");
    const left = Math.max(0, Math.round((deadline - Date.now()) / 1000));
    const kind = phase === "response" ? "answer to " : "";
    const head = `${id} ${direction === "c2s" ? "→" : "←"} ${kind}${method} ${target}`.trimEnd();
    const more = lines.length > most ? [`… ${lines.length - most} more lines; s shows all`] : [];
    const others = this.#waiting.size - 1;
    const queue = others > 0 ? `, ${others} more held` : "";
    const about = `(route ${route}, ${principal}, ${left} s left${queue})`;
    const shown = [`${head}  ${about}`, ...lines.slice(0, most), ...more];
    this.#io.out(`\n${printable(shown.join("\n"))}\n`);
  }
}

const commandNames = ["release", "edit", "drop", "answer", "show", "quit"] as const;
const prompt = "[r]elease, [e]dit, [d]rop, [a]nswer, [s]how all, [q]uit? ";
const answerTemplate = `${JSON.stringify({ result: { content: [{ type: "text", text: "" }] } }, undefined, 2)}\n`;
const done: Readonly<Record<HoldDecision["action"], string>> = {
  continue: "released",
  modify: "changed",
  block: "dropped",
  answer: "answered",
};

function toUndefined(): undefined {
  return undefined;
}

/** Lets the user edit text in `$VISUAL` or `$EDITOR`; undefined where the editor failed. */
function editText(text: string, { env, stdin, err }: Pick<ServingIo, "env" | "stdin" | "err">): string | undefined {
  const editor = env["VISUAL"] ?? env["EDITOR"] ?? (process.platform === "win32" ? "notepad" : "vi");
  // Only the user can read it, because messages may contain secrets.
  const folder = mkdtempSync(join(tmpdir(), "headgate-edit-"));
  const file = join(folder, "message.json");
  try {
    writeFileSync(file, text, { mode: 0o600 });
    // Synchronous, so that nothing else reads the keyboard meanwhile. As in git, the editor is a command line.
    const { status } = spawnSync(`${editor} "${file}"`, {
      shell: true,
      env: { ...env },
      stdio: [isTty(stdin) ? "inherit" : "ignore", "inherit", "inherit"],
    });
    if (status === 0) return readFileSync(file, "utf8");
    err(`headgate: the editor failed: ${editor}; set EDITOR to the command of yours\n`);
    return undefined;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A message for an editor: one member a line, numbers with all their digits. */
export function formatForEditor(text: string): string {
  return `${jsonText(parseExactJson(text), "\n")}\n`;
}

/**
 * The message after an edit of its formatted text: only the values that differ are written, every other byte stays as it
 * was received.
 */
export function applyEdit(text: string, edited: string): EditResult {
  const after = parseExactJson(edited);
  if (!isObject(after)) return { ok: false, problem: "the edited text is not a JSON object" };
  let result: EditResult = { ok: true, bytes: Buffer.from(text) };
  for (const { pointer, value } of differences(parseExactJson(text), after, "")) {
    if (!result.ok) break;
    result = value === undefined ? removeAt(result.bytes, pointer) : setAt(result.bytes, pointer, jsonText(value, ""));
  }
  return result;
}

/** A value to write; undefined for a removed member. */
interface ValueEdit {
  readonly pointer: string;
  readonly value: unknown;
}

function differences(before: unknown, after: unknown, pointer: string): readonly ValueEdit[] {
  if (isTree(before) && isTree(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => {
      const inner = pointer + pointerStep(name);
      if (!Object.hasOwn(after, name)) return [{ pointer: inner, value: undefined }];
      if (!Object.hasOwn(before, name)) return [{ pointer: inner, value: after[name] }];
      return differences(before[name], after[name], inner);
    });
  }
  // Where elements are added or removed, the list is replaced as a whole.
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length)
    return after.flatMap((value, index) => differences(before[index], value, `${pointer}/${index}`));
  return canonicalText(before) === canonicalText(after) ? [] : [{ pointer, value: after }];
}

function isTree(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && !(value instanceof ExactNumber);
}

/** JSON text that keeps the order of members and all digits; `line` begins each line, or is empty for one line. */
function jsonText(value: unknown, line: string): string {
  const inner = line === "" ? "" : `${line}  `;
  const joined = (open: string, parts: readonly string[], close: string): string =>
    parts.length === 0 ? `${open}${close}` : `${open}${parts.map((part) => inner + part).join(",")}${line}${close}`;
  if (Array.isArray(value))
    return joined(
      "[",
      value.map((element) => jsonText(element, inner)),
      "]",
    );
  if (!isTree(value)) return canonicalText(value);
  const members = Object.entries(value).map(
    ([name, member]) => `${JSON.stringify(name)}:${line === "" ? "" : " "}${jsonText(member, inner)}`,
  );
  return joined("{", members, "}");
}
