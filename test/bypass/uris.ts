import type { MessageAttempt } from "./messages.ts";
import { closed, closedUris } from "./vault.ts";

const letters = (text: string, shift: number): string =>
  text.replaceAll(/[a-z]/gu, (letter) => String.fromCodePoint((letter.codePointAt(0) ?? 0) + shift));
const inHost = (change: (host: string) => string) => (uri: string) =>
  uri.replace(/^((?:https?|wss?):\/\/)([a-z][^/:]*)/u, (_, scheme: string, host: string) => scheme + change(host));

/** Other spellings of one URI, for some reader at least. A spelling that a URI does not have leaves it as it is. */
const spellings: Readonly<Record<string, (uri: string) => string>> = {
  "as it is": (uri) => uri,
  "scheme in capitals": (uri) => uri.replace(/^[a-z]+/u, (scheme) => scheme.toUpperCase()),
  "one slash": (uri) => uri.replace(/:\/\/\/?/u, ":/"),
  "no slash": (uri) => uri.replace(/:\/\/\/?/u, ":"),
  "a slash more": (uri) => uri.replace("://", ":///"),
  "three slashes more": (uri) => uri.replace("://", "://///"),
  backslashes: (uri) => uri.replaceAll("/", "\\"),
  "a blank before": (uri) => ` ${uri}`,
  "a blank behind": (uri) => `${uri} `,
  "a NUL before": (uri) => `\u0000${uri}`,
  "a line feed inside": (uri) => uri.replace("secret", "sec\nret"),
  "a tab in the scheme": (uri) => `${uri.slice(0, 2)}\t${uri.slice(2)}`,
  "the default port": (uri) =>
    uri.replace(
      /^(https?)(:\/\/[^/]+)/u,
      (_, scheme: string, rest: string) => `${scheme}${rest}:${scheme === "http" ? 80 : 443}`,
    ),
  "a port with a zero": (uri) => uri.replace(":8443", ":08443"),
  "an empty port": (uri) => uri.replace(/^([a-z]+:\/\/[^/:]+)\//u, "$1:/"),
  "empty credentials": (uri) => uri.replace(/:\/\/(?=[^/])/u, "://@"),
  credentials: (uri) => uri.replace(/:\/\/(?=[^/])/u, "://ann:pw@"),
  "this host": (uri) => uri.replace("file://", "file://localhost"),
  "this host in capitals": (uri) => uri.replace("file://", "file://LOCALHOST"),
  "another host": (uri) => uri.replace("file://", "file://elsewhere.example"),
  "an empty query": (uri) => (uri.includes("?") ? uri : `${uri}?`),
  "an empty fragment": (uri) => `${uri}#`,
  "a query on a file": (uri) => (uri.startsWith("file:") ? `${uri}?a` : uri),
  "a dot segment": (uri) => uri.replace(/\/(?=[^/]*$)/u, "/./"),
  "two dots": (uri) => uri.replace(/\/(?=[^/]*$)/u, "/x/../"),
  "encoded dots": (uri) => uri.replace(/\/(?=[^/]*$)/u, "/x/%2e%2E/"),
  "dots behind an encoded slash": (uri) => uri.replace(/\/(?=[^/]*$)/u, "/x%2f..%2F"),
  "an encoded slash": (uri) => uri.replace(/(?<=file:.*[^/])\/(?=[^/]*$)/u, "%2F"),
  "an empty segment": (uri) => uri.replace(/(?<=file:.*[^/])\/(?=[^/]*$)/u, "//"),
  "an encoded letter": (uri) => uri.replace("secret", "%73ecret").replace("menu", "%6denu"),
  "an encoded letter of the host": inHost((host) => host.replace("v", "%76")),
  "small encodings": (uri) => uri.replaceAll(/%../gu, (escape) => escape.toLowerCase()),
  "a raw blank": (uri) => uri.replace("%20", " "),
  "a raw letter": (uri) => uri.replace("%C3%A9", "\u00e9"),
  "the host in capitals": inHost((host) => host.toUpperCase()),
  "the host in full width": inHost((host) => letters(host, 0xfee0)),
  "the host in circles": inHost((host) => letters(host, 0x24d0 - 0x61)),
  "the host in mathematical letters": inHost((host) => letters(host, 0x1d41a - 0x61)),
  "a soft hyphen in the host": inHost((host) => `${host.slice(0, 2)}\u00ad${host.slice(2)}`),
  "a zero-width space in the host": inHost((host) => `${host.slice(0, 2)}\u200b${host.slice(2)}`),
  "an ideographic full stop": inHost((host) => host.replace(".", "\u3002")),
  "a dot behind the host": inHost((host) => `${host}.`),
  "a short address": (uri) => uri.replace("127.0.0.1", "127.1"),
  "a hexadecimal address": (uri) => uri.replace("127.0.0.1", "0x7f.0.0.1"),
  "an octal address": (uri) => uri.replace("127.0.0.1", "0177.0.0.01"),
  "an address as a number": (uri) => uri.replace("127.0.0.1", "2130706433"),
  "an address in full width": (uri) => uri.replace("127.0.0.1", "\uff11\uff12\uff17.0.0.1"),
};

const q = (text: string): string => JSON.stringify(text);
const modernMeta =
  ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}';

function about(name: string, method: string, params: string): MessageAttempt {
  const text: MessageAttempt["text"] = (era) =>
    `{"jsonrpc":"2.0","id":7,"method":${q(method)},"params":{${params}${era === "modern" ? modernMeta : ""}}}`;
  return { name: `${method} of ${name}`, text };
}

const targets = closedUris.flatMap((uri) => {
  const all = Object.entries(spellings).map(([how, spell]) => [`${uri} with ${how}`, spell(uri)] as const);
  return all.filter(([, spelled], index) => all.findIndex(([, other]) => other === spelled) === index);
});

/** Every closed resource in every spelling, by each method that takes a URI. */
export const uriAttempts: readonly MessageAttempt[] = targets.flatMap(([name, uri]) => [
  about(name, "resources/read", `"uri":${q(uri)}`),
  about(name, "resources/subscribe", `"uri":${q(uri)}`),
  about(
    name,
    "completion/complete",
    `"ref":{"type":"ref/resource","uri":${q(uri)}},"argument":{"name":"a","value":""}`,
  ),
]);

/** Filters that are not a list of URIs; a lenient server may read them as one. */
const filterShapes: Readonly<Record<string, (uri: string) => unknown>> = {
  "a text": (uri) => uri,
  "an object": (uri) => ({ 0: uri, length: 1 }),
  "an object by URI": (uri) => ({ [uri]: true }),
  "a list in a list": (uri) => [[uri]],
  "a list of objects": (uri) => [{ uri }],
  "a list with a number": (uri) => [1, uri],
};

export const filterAttempts: readonly MessageAttempt[] = Object.entries(filterShapes).map(([shape, of]) =>
  about(
    `${closed.resource} in ${shape}`,
    "subscriptions/listen",
    `"notifications":{"resourceSubscriptions":${JSON.stringify(of(closed.resource))}}`,
  ),
);

/** The same as entries of filters. They go last, and once: each opens a stream that stays open. */
export const listenAttempt: MessageAttempt = about(
  "every spelling at once",
  "subscriptions/listen",
  `"notifications":{"resourceSubscriptions":${JSON.stringify([closed.resource, ...targets.map(([, uri]) => uri)])}}`,
);
