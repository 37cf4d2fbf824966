/** An attempt to have other arguments read by the server than by the policy. */
export interface ArgumentAttempt {
  readonly name: string;
  readonly tool: "transfer" | "search";
  /** The arguments as they are written. */
  readonly json: string;
  /**
   * `repeated`: a name that the policy reads is there in two spellings; `variant`: only in another one; `list`: a list
   * stands where the policy has an object. Only of the first does a decision point with rules of its own know nothing to ask.
   */
  readonly kind: "repeated" | "variant" | "list";
}

const lookalikes: Readonly<Record<string, string>> = { s: "\u017f", k: "\u212a" };

/** Other spellings of a member name that servers take for it, as JSON. */
function spellings(name: string): readonly string[] {
  const first = name.charAt(0).toUpperCase();
  const code = first.charCodeAt(0).toString(16).padStart(4, "0");
  const folded = name.replaceAll(/[sk]/gu, (letter) => lookalikes[letter] ?? letter);
  const written = [
    first + name.slice(1),
    name.toUpperCase(),
    name.slice(0, -1) + name.slice(-1).toUpperCase(),
    ...(folded === name ? [] : [folded, folded.toUpperCase()]),
  ];
  return [...written.map((text) => JSON.stringify(text)), `"\\u${code}${name.slice(1)}"`];
}

type Shape = readonly [kind: ArgumentAttempt["kind"], tool: ArgumentAttempt["tool"], json: (spelled: string) => string];

const own = '"filter":{"owner":"me"}';

const shapes: Readonly<Record<string, readonly Shape[]>> = {
  amount: [
    ["repeated", "transfer", (name) => `{"amount":5,${name}:5000}`],
    ["repeated", "transfer", (name) => `{${name}:5000,"amount":5}`],
    ["repeated", "transfer", (name) => `{"amount":5,"note":{"a":[1,{}]},${name}:5000}`],
    ["repeated", "transfer", (name) => `{"amount":5,"order":{"amount":5,${name}:5000}}`],
    ["repeated", "transfer", (name) => `{"amount":5,"orders":[{"amount":1},{${name}:5000,"amount":5}]}`],
    ["repeated", "transfer", (name) => `{"amount":5,${manyNames},${name}:5000}`],
    ["variant", "transfer", (name) => `{${name}:5000}`],
    ["variant", "transfer", (name) => `{"amount":5,"order":{${name}:5000}}`],
    ["variant", "transfer", (name) => `{"amount":5,"orders":[{},{${name}:5000}]}`],
  ],
  order: [
    ["repeated", "transfer", (name) => `{"amount":5,"order":{"amount":5},${name}:{"amount":5000}}`],
    ["variant", "transfer", (name) => `{"amount":5,${name}:{"amount":5000}}`],
  ],
  orders: [["variant", "transfer", (name) => `{"amount":5,${name}:[{"amount":5000}]}`]],
  filter: [
    ["repeated", "search", (name) => `{${own},${name}:{"owner":"bob"}}`],
    ["repeated", "search", (name) => `{${name}:{"owner":"bob"},${own}}`],
    ["variant", "search", (name) => `{${name}:{"owner":"bob"}}`],
  ],
  owner: [
    ["repeated", "search", (name) => `{"filter":{"owner":"me",${name}:"bob"}}`],
    ["variant", "search", (name) => `{"filter":{${name}:"bob"}}`],
  ],
  scope: [
    ["repeated", "search", (name) => `{${own},"scope":"own",${name}:"all"}`],
    ["variant", "search", (name) => `{${own},${name}:"all"}`],
  ],
  key: [
    ["repeated", "search", (name) => `{${own},"key":"own",${name}:"all"}`],
    ["variant", "search", (name) => `{${own},${name}:"all"}`],
  ],
  debug: [["variant", "search", (name) => `{${own},${name}:true}`]],
};

/** More names than are compared one by one. */
const manyNames = Array.from({ length: 40 }, (_, index) => `"n${index}":0`).join(",");

const lists = [
  '{"filter":[{"owner":"bob"}]}',
  '{"filter":[{"owner":"me"},{"owner":"bob"}]}',
  '{"filter":[[{"owner":"bob"}]]}',
  `{"filter":[{"owner":"bob"}],"scope":"own"}`,
  `{${own},"options":[{"trace":true}]}`,
  `{${own},"options":[1,[{"trace":true}]]}`,
];

/** Members that only a prototype has. */
const prototypes: readonly (readonly [tool: ArgumentAttempt["tool"], json: string])[] = [
  ["transfer", '{"amount":5,"order":{"__proto__":{"amount":5000}}}'],
  ["transfer", '{"__proto__":{"order":{"amount":5000}},"amount":5}'],
  ["transfer", '{"amount":5,"orders":[{"__proto__" : {"amount":5000}}]}'],
  ["search", `{${own},"__proto__":{"scope":"all"}}`],
  ["search", `{${own},"\\u005f_proto__":{"debug":true}}`],
  ["search", `{${own},"__proto__":{"__proto__":{"key":"all"}}}`],
];

/** Every attempt by arguments. */
export const argumentAttempts: readonly ArgumentAttempt[] = [
  ...Object.entries(shapes).flatMap(([member, all]) =>
    all.flatMap(([kind, tool, json]) =>
      spellings(member).map((spelled): ArgumentAttempt => ({ name: json(spelled), tool, json: json(spelled), kind })),
    ),
  ),
  ...prototypes.map(([tool, json]): ArgumentAttempt => ({ name: json, tool, json, kind: "repeated" })),
  ...lists.map((json): ArgumentAttempt => ({ name: json, tool: "search", json, kind: "list" })),
];
