import { type KindAttempt, kindAttempts } from "./kinds.ts";
import { closed, open } from "./vault.ts";

/** One attempt to get something closed by a message alone; it fits every transport. */
export interface MessageAttempt {
  readonly name: string;
  /** What is sent as a body or a line, for a client of this era. */
  readonly text: (era: "legacy" | "modern") => string | Uint8Array;
}

const envelope =
  '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}';
const meta = (era: "legacy" | "modern"): string => (era === "modern" ? `,${envelope}` : "");
const q = (text: string): string => JSON.stringify(text);

/** A message with these members around the envelope. */
function raw(members: string, params: string): MessageAttempt["text"] {
  return (era) => `{"jsonrpc":"2.0",${members},"params":{${params}${meta(era)}}}`;
}

const call = (params: string, id = '"id":7'): MessageAttempt["text"] => raw(`${id},"method":"tools/call"`, params);
const named = (name: string): MessageAttempt["text"] => call(`"name":${q(name)},"arguments":{}`);
/** A call of a tool with these arguments, as they are written. */
export const callOf = (tool: string, json: string): MessageAttempt["text"] =>
  call(`"name":${q(tool)},"arguments":${json}`);
const plain = `"name":${q(closed.tool)},"arguments":{}`;

function bytes(text: MessageAttempt["text"], change: (text: string) => string | Uint8Array): MessageAttempt["text"] {
  return (era) => change(String(text(era)));
}

const spelled: readonly (readonly [name: string, spelling: string])[] = [
  ["as it is", closed.tool],
  ["in capitals", "OPEN_VAULT"],
  ["in mixed case", "Open_Vault"],
  ["with a Cyrillic o", "\u043epen_vault"],
  ["with a Greek o", "\u03bfpen_vault"],
  ["in full-width letters", "\uff4f\uff50\uff45\uff4e_\uff56\uff41\uff55\uff4c\uff54"],
  ["in mathematical letters", "\u{1d428}\u{1d429}en_vault"],
  ["with a full-width underscore", "open\uff3fvault"],
  ["with a zero-width space", "open_\u200bvault"],
  ["with a zero-width joiner", "open\u200d_vault"],
  ["with a word joiner", "\u2060open_vault"],
  ["with a soft hyphen", "open_\u00advault"],
  ["with a byte order mark", "\ufeffopen_vault"],
  ["with a direction mark", "open_vault\u202e"],
  ["with a combining dot", "open_vau\u0307lt"],
  ["with a long s", "open_vault\u017f"],
  ["with a blank before", " open_vault"],
  ["with a blank behind", "open_vault "],
  ["with a tab behind", "open_vault\t"],
  ["with a line feed behind", "open_vault\n"],
  ["with a carriage return behind", "open_vault\r"],
  ["with a no-break space behind", "open_vault\u00a0"],
  ["with a NUL behind", "open_vault\u0000"],
  ["with a NUL and more behind", "open_vault\u0000status"],
  ["behind an allowed name and a NUL", "status\u0000open_vault"],
  ["behind an allowed name and a line feed", "status\nopen_vault"],
  ["percent-encoded", "open%5fvault"],
  ["percent-encoded twice", "open%255fvault"],
  ["in Base64 between sentinels", `=?base64?${Buffer.from(closed.tool).toString("base64")}?=`],
  ["as a JSON string in a string", '"open_vault"'],
  ["with an HTML entity", "open&#95;vault"],
  ["behind a prefix of two underscores", "vault__open_vault"],
  ["behind a prefix with a slash", "vault/open_vault"],
  ["behind a prefix with a dot", "vault.open_vault"],
  ["behind a prefix with a colon", "default:open_vault"],
  ["behind a path", "./open_vault"],
  ["behind the way up", "status/../open_vault"],
  ["with a slash behind", "open_vault/"],
  ["with a query behind", "open_vault?x=status"],
  ["with a fragment behind", "open_vault#status"],
  ["as a glob", "open_*"],
  ["as a list", "status,open_vault"],
];

const names = spelled.map(([name, spelling]): MessageAttempt => ({
  name: `the name ${name}`,
  text: named(spelling),
}));

const keys: readonly MessageAttempt[] = [
  { name: "the name twice, the closed one last", text: call(`"name":${q(open.tool)},${plain}`) },
  { name: "the name twice, the closed one first", text: call(`${plain},"name":${q(open.tool)}`) },
  { name: "the name twice, one in capitals", text: call(`"name":${q(open.tool)},"NAME":${q(closed.tool)}`) },
  {
    name: "the name twice, one with a capital",
    text: call(`"Name":${q(closed.tool)},"name":${q(open.tool)}`),
  },
  { name: "the name in capitals alone", text: call(`"NAME":${q(closed.tool)}`) },
  {
    name: "the name twice, one with an escape",
    text: call(`"name":${q(open.tool)},"n\\u0061me":${q(closed.tool)}`),
  },
  { name: "the name with escapes in it", text: call(`"name":"\\u006fpen\\u005fvault","arguments":{}`) },
  { name: "the key with escapes in it", text: call(`"\\u006e\\u0061\\u006d\\u0065":${q(closed.tool)}`) },
  { name: "half a surrogate in the name", text: call(`"name":"open_vault\\ud800"`) },
  {
    name: "params twice, the closed ones last",
    text: (era) =>
      `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"status"${meta(era)}},"params":{${plain}${meta(era)}}}`,
  },
  {
    name: "params twice, the closed ones first",
    text: (era) =>
      `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{${plain}${meta(era)}},"params":{"name":"status"${meta(era)}}}`,
  },
  {
    name: "params in capitals beside params",
    text: (era) =>
      `{"jsonrpc":"2.0","id":7,"method":"tools/call","Params":{${plain}${meta(era)}},"params":{"name":"status"${meta(era)}}}`,
  },
  {
    name: "the method twice, the call last",
    text: raw('"id":7,"method":"tools/list","method":"tools/call"', plain),
  },
  {
    name: "the method twice, the call first",
    text: raw('"id":7,"method":"tools/call","method":"tools/list"', plain),
  },
  {
    name: "the method in capitals beside the method",
    text: raw('"id":7,"method":"ping","Method":"tools/call"', plain),
  },
  { name: "the name in a prototype", text: call(`"__proto__":{${plain}}`) },
  { name: "the name in a constructor", text: call(`"constructor":{"prototype":{${plain}}}`) },
  { name: "the name with a blank behind its key", text: call(`"name ":${q(closed.tool)}`) },
];

const types: readonly MessageAttempt[] = [
  ["a list", `[${q(closed.tool)}]`],
  ["an object", `{"name":${q(closed.tool)}}`],
  ["a list of two", `[${q(open.tool)},${q(closed.tool)}]`],
  ["null", "null"],
  ["a number", "1"],
].map(([name = "", json = ""]): MessageAttempt => ({
  name: `the name as ${name}`,
  text: call(`"name":${json},"arguments":{}`),
}));

const methods: readonly MessageAttempt[] = [
  ["with a blank behind", "tools/call "],
  ["with capitals", "Tools/Call"],
  ["all in capitals", "TOOLS/CALL"],
  ["with two slashes", "tools//call"],
  ["with a slash behind", "tools/call/"],
  ["with a slash before", "/tools/call"],
  ["with a NUL behind", "tools/call\u0000"],
  ["with a line feed behind", "tools/call\n"],
  ["percent-encoded", "tools%2fcall"],
  ["with a dot", "tools.call"],
  ["with the way up", "tools/list/../call"],
  ["with a backslash", "tools\\call"],
  ["with a full-width slash", "tools\uff0fcall"],
  ["as another name", "tools/execute"],
  ["of an extension", "x-vault/tools/call"],
].map(([name = "", method = ""]): MessageAttempt => ({
  name: `the method ${name}`,
  text: raw(`"id":7,"method":${q(method)}`, plain),
}));

const shapes: readonly MessageAttempt[] = [
  { name: "a call without an id", text: raw('"method":"tools/call"', plain) },
  { name: "a call with the id null", text: call(plain, '"id":null') },
  { name: "a call with a fraction as id", text: call(plain, '"id":1.5') },
  { name: "a call with an object as id", text: call(plain, '"id":{}') },
  { name: "a call with a huge id", text: call(plain, `"id":${"9".repeat(400)}`) },
  { name: "a call with a long text as id", text: call(plain, `"id":${q("x".repeat(100_000))}`) },
  { name: "a call with an exponent as id", text: call(plain, '"id":1e400') },
  { name: "a call with two ids", text: call(plain, '"id":1,"id":2') },
  { name: "a call that is a response too", text: raw('"id":7,"result":{},"method":"tools/call"', plain) },
  {
    name: "a call that is an error too",
    text: raw('"id":7,"error":{"code":1,"message":""},"method":"tools/call"', plain),
  },
  { name: "a call of JSON-RPC 1.0", text: bytes(call(plain), (text) => text.replace('"2.0"', '"1.0"')) },
  {
    name: "a call without a version",
    text: bytes(call(plain), (text) => text.replace('"jsonrpc":"2.0",', "")),
  },
  {
    name: "a call with params as a list",
    text: () => `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[${q(closed.tool)}]}`,
  },
  { name: "a call in a list", text: bytes(call(plain), (text) => `[${text}]`) },
  {
    name: "a call in a list behind an open one",
    text: (era) => `[${String(named(open.tool)(era))},${String(named(closed.tool)(era)).replace('"id":7', '"id":8')}]`,
  },
  { name: "a call in a list in a list", text: bytes(call(plain), (text) => `[[${text}]]`) },
  { name: "a call as a task", text: call(`${plain},"task":{"ttl":1000}`) },
  {
    name: "a call with answers to questions",
    text: call(`${plain},"inputResponses":{"a":{"action":"accept"}},"requestState":"x"`),
  },
  {
    name: "an open call with an answer that is none",
    text: call(`"name":${q(open.tool)},"arguments":{},"inputResponses":{"a":{"name":${q(closed.tool)}}}`),
  },
  {
    name: "a call very deep",
    text: (era) => `${"[".repeat(500)}${String(named(closed.tool)(era))}${"]".repeat(500)}`,
  },
  {
    name: "a call with deep arguments",
    text: call(`"name":${q(closed.tool)},"arguments":${'{"a":'.repeat(500)}1${"}".repeat(500)}`),
  },
];

const encodings: readonly MessageAttempt[] = [
  { name: "a byte order mark before", text: bytes(call(plain), (text) => Buffer.from(`\ufeff${text}`)) },
  { name: "UTF-16", text: bytes(call(plain), (text) => Buffer.from(text.replaceAll("\n", ""), "utf16le")) },
  {
    name: "overlong UTF-8 in the name",
    text: bytes(call(plain), (text) => {
      const [before = "", behind = ""] = text.split("open_vault");
      // 0xC1 0xAF is an o in two bytes, which UTF-8 forbids (RFC 3629 section 3).
      return Buffer.concat([Buffer.from(before), Buffer.from([0xc1, 0xaf]), Buffer.from(`pen_vault${behind}`)]);
    }),
  },
  {
    name: "an invalid byte in the name",
    text: bytes(call(plain), (text) => Buffer.from(text.replace("open_vault", "open_vault\u00ff"), "latin1")),
  },
  { name: "blanks before", text: bytes(call(plain), (text) => ` \t ${text}`) },
  { name: "a form feed before", text: bytes(call(plain), (text) => `\f${text}`) },
  {
    name: "two messages one behind the other",
    text: (era) => `${String(named(open.tool)(era))}${String(named(closed.tool)(era))}`,
  },
  {
    name: "two messages with a carriage return between",
    text: (era) => `${String(named(open.tool)(era))}\r${String(named(closed.tool)(era))}`,
  },
  { name: "a record separator before", text: bytes(call(plain), (text) => `\u001e${text}`) },
  { name: "a comment before", text: bytes(call(plain), (text) => `/* x */${text}`) },
  { name: "single quotes", text: bytes(call(plain), (text) => text.replaceAll('"', "'")) },
  { name: "a comma too many", text: bytes(call(plain), (text) => text.replace(/\}$/u, ",}")) },
  { name: "something behind", text: bytes(call(plain), (text) => `${text} x`) },
  { name: "an event's field before", text: bytes(call(plain), (text) => `data: ${text}`) },
  { name: "a prefix against hijacking", text: bytes(call(plain), (text) => `)]}'${text}`) },
  { name: "a message as a string", text: bytes(call(plain), (text) => q(text)) },
];

const others: readonly MessageAttempt[] = [
  { name: "a closed prompt", text: raw('"id":7,"method":"prompts/get"', `"name":${q(closed.prompt)}`) },
  { name: "a closed prompt in capitals", text: raw('"id":7,"method":"prompts/get"', `"name":"VAULT_CODE"`) },
  {
    name: "a completion of a closed prompt",
    text: raw(
      '"id":7,"method":"completion/complete"',
      `"ref":{"type":"ref/prompt","name":${q(closed.prompt)}},"argument":{"name":"a","value":""}`,
    ),
  },
  {
    name: "a completion of a closed resource",
    text: raw(
      '"id":7,"method":"completion/complete"',
      `"ref":{"type":"ref/resource","uri":${q(closed.resource)}},"argument":{"name":"a","value":""}`,
    ),
  },
  {
    name: "a subscription to a closed resource",
    text: raw('"id":7,"method":"resources/subscribe"', `"uri":${q(closed.resource)}`),
  },
  ...[
    closed.resource,
    "VAULT://secret",
    "vault://SECRET",
    "vault:secret",
    "vault:///secret",
    "vault://secret/",
    "vault://secret#a",
    "vault://secret?a",
    "vault://status/../secret",
    "vault://user@secret",
    "vault://%73ecret",
    "vault://secret%00",
    " vault://secret",
    "vault://secret\n",
    "vault://\u017fecret",
  ].map((uri): MessageAttempt => ({
    name: `the resource ${JSON.stringify(uri)}`,
    text: raw('"id":7,"method":"resources/read"', `"uri":${q(uri)}`),
  })),
];

/** A message with an id or without one, whatever its method. */
export function kindMessage({ method, hasId, params }: KindAttempt): MessageAttempt["text"] {
  return raw(`${hasId ? '"id":7,' : ""}"method":${q(method)}`, params);
}

const kinds = kindAttempts.map((attempt): MessageAttempt => ({ name: attempt.name, text: kindMessage(attempt) }));

const references: readonly MessageAttempt[] = [
  ...["REF/PROMPT", "Ref/Prompt", "ref/prompt ", "ref/prompts", "prompt", "ref/tool", ""].map(
    (type): MessageAttempt => ({
      name: `a completion of a closed prompt by the type ${q(type)}`,
      text: reference(`"type":${q(type)},"name":${q(closed.prompt)}`),
    }),
  ),
  { name: "a completion with a type in capitals", text: reference(`"Type":"ref/prompt","name":${q(closed.prompt)}`) },
  { name: "a completion without a type", text: reference(`"name":${q(closed.prompt)}`) },
  { name: "a completion of a name in capitals", text: reference(`"type":"ref/prompt","Name":${q(closed.prompt)}`) },
  {
    name: "a completion of two names",
    text: reference(`"type":"ref/prompt","name":${q(open.prompt)},"NAME":${q(closed.prompt)}`),
  },
  {
    name: "a completion of two types",
    text: reference(`"type":"ref/prompt","TYPE":"ref/resource","name":${q(open.prompt)},"uri":${q(closed.resource)}`),
  },
];

function reference(members: string): MessageAttempt["text"] {
  return raw('"id":7,"method":"completion/complete"', `"ref":{${members}},"argument":{"name":"a","value":""}`);
}

/** Notifications that MCP does not define, about closed things. */
const vendors: readonly MessageAttempt[] = [
  "notifications/x-acme/run",
  "notifications/tools/call",
  "notifications/x",
  "notifications/",
].map((method) => ({ name: `${method} of the closed tool`, text: raw(`"method":${q(method)}`, plain) }));

/** Every attempt by a message alone. */
export const messageAttempts: readonly MessageAttempt[] = [
  ...names,
  ...keys,
  ...types,
  ...methods,
  ...shapes,
  ...encodings,
  ...others,
  ...kinds,
  ...references,
  ...vendors,
];

/** A call as a whole, and its parameters. */
const callForm = /^\{"jsonrpc":"2\.0","id":7,"method":"tools\/call","params":\{(?<params>(?:(?!"params").)*)\}\}$/su;

/** The same calls by the tool that calls others, where tools are found by searching. */
export const searchAttempts: readonly MessageAttempt[] = messageAttempts.flatMap(({ name, text }) => {
  const written = text("legacy");
  const params = typeof written === "string" ? callForm.exec(written)?.groups?.["params"] : undefined;
  return params === undefined ? [] : [{ name: `by call_tool: ${name}`, text: callOf("call_tool", `{${params}}`) }];
});

/** The attempt that anybody would make first. */
export const plainAttempt: MessageAttempt = { name: "the plain call", text: named(closed.tool) };

/** A call that everybody may make. */
export const openCall: MessageAttempt["text"] = named(open.tool);
