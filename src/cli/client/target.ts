import { validateHeaderName, validateHeaderValue } from "node:http";

import { defaultEndpoint } from "../commands.ts";
import { UsageError } from "../define-command.ts";

/** The server that a client command connects to. */
export type ClientTarget =
  | { readonly type: "http"; readonly url: URL; readonly headers: Readonly<Record<string, string>> }
  | { readonly type: "stdio"; readonly command: string; readonly args: readonly string[] };

/** The arguments that name a server. */
export interface TargetArguments {
  readonly url: string | undefined;
  readonly headers: readonly string[] | undefined;
  /** A program with its arguments. */
  readonly program: readonly string[] | undefined;
}

/** The server that the arguments name; the local gateway by default. */
export function parseTarget({ url: text, headers = [], program }: TargetArguments): ClientTarget {
  if (program !== undefined) {
    const [command, ...args] = program;
    if (command === undefined) throw new UsageError("expected a command after --");
    if (text !== undefined) throw new UsageError("a URL and a command exclude each other");
    if (headers.length > 0) throw new UsageError("--header needs a URL, not a command");
    return { type: "stdio", command, args };
  }
  const url = URL.parse(text ?? defaultEndpoint);
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new UsageError(`\`${text ?? ""}\` is not an http or https URL`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new UsageError("the URL contains credentials; pass them with --header");
  }
  return { type: "http", url, headers: Object.fromEntries(headers.map(parseHeader)) };
}

/** A server as it is shown in messages. */
export function formatTarget(target: ClientTarget): string {
  return target.type === "http" ? target.url.href : `\`${[target.command, ...target.args].join(" ")}\``;
}

function parseHeader(line: string): [string, string] {
  const { name, value } = /^(?<name>[^:\s]+)\s*:(?<value>.*)$/su.exec(line)?.groups ?? {};
  try {
    if (name === undefined || value === undefined) throw new TypeError("no colon");
    // Both throw for invalid values (RFC 9110, sections 5.1 and 5.5).
    validateHeaderName(name);
    validateHeaderValue(name, value.trim());
    return [name.toLowerCase(), value.trim()];
  } catch {
    // The value may be a secret, so it is not repeated.
    throw new UsageError("--header takes NAME:VALUE, the name and value of an HTTP header");
  }
}
