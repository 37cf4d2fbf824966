import { validateHeaderName, validateHeaderValue } from "node:http";

import { defaultEndpoint } from "../commands.ts";
import type { ParseResult } from "./tool-arguments.ts";

/** The server that a client command looks at. */
export type ClientTarget =
  | { readonly type: "http"; readonly url: URL; readonly headers: Readonly<Record<string, string>> }
  | { readonly type: "stdio"; readonly command: string; readonly args: readonly string[] };

/** Where a server is, as the command line says it. */
export interface TargetArguments {
  readonly url: string | undefined;
  readonly headers: readonly string[] | undefined;
  /** A command with its arguments. */
  readonly program: readonly string[] | undefined;
}

/** The server that the command line means; a gateway on this machine if it names none. */
export function parseTarget({ url: text, headers = [], program }: TargetArguments): ParseResult<ClientTarget> {
  if (program !== undefined) {
    const [command, ...args] = program;
    if (command === undefined) return { ok: false, problem: "a command must follow --" };
    if (text !== undefined) return { ok: false, problem: "give a URL or a command, not both" };
    if (headers.length > 0) return { ok: false, problem: "--header is for servers that have a URL" };
    return { ok: true, value: { type: "stdio", command, args } };
  }
  const url = URL.parse(text ?? defaultEndpoint);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    return { ok: false, problem: `\`${text ?? ""}\` is not an http or https URL` };
  }
  if (url.username !== "" || url.password !== "") {
    return { ok: false, problem: "the URL has credentials in it; they belong in --header" };
  }
  const entries: [string, string][] = [];
  for (const line of headers) {
    const header = parseHeader(line);
    if (!header.ok) return header;
    entries.push(header.value);
  }
  return { ok: true, value: { type: "http", url, headers: Object.fromEntries(entries) } };
}

/** A server as messages name it. */
export function formatTarget(target: ClientTarget): string {
  return target.type === "http" ? target.url.href : `\`${[target.command, ...target.args].join(" ")}\``;
}

function parseHeader(line: string): ParseResult<[string, string]> {
  const { name, value } = /^(?<name>[^:\s]+)\s*:(?<value>.*)$/su.exec(line)?.groups ?? {};
  try {
    if (name === undefined || value === undefined) throw new TypeError("there is no colon");
    // Both throw for what cannot be sent (RFC 9110, sections 5.1 and 5.5).
    validateHeaderName(name);
    validateHeaderValue(name, value.trim());
    return { ok: true, value: [name.toLowerCase(), value.trim()] };
  } catch {
    // The value may be a secret, so only what cannot be one is repeated.
    return { ok: false, problem: "--header takes NAME:VALUE, the name and value of an HTTP header" };
  }
}
