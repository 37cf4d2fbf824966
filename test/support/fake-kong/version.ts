/** The versions of Kong that behave differently towards this plugin; a later one behaves like the last. */
export const kongVersions = ["3.0", "3.1", "3.4", "3.5", "3.8", "3.9"] as const;
export type KongVersion = (typeof kongVersions)[number];

/** What a version does, read from Kong's own Lua code of that version. */
export interface KongBehaviour {
  /** `kong.request.get_raw_body` takes a size, and reads bodies that nginx put on disk. */
  readonly readsBodiesOnDisk: boolean;
  /** Responses to HTTP/2 clients are buffered, so that there is a response phase for them. */
  readonly buffersHttp2: boolean;
  /** A server that Kong did not start itself is never called. */
  readonly skipsForeignServers: boolean;
  /** Fields of a schema may have a `description`. */
  readonly knowsDescriptions: boolean;
}

/** The behaviour of a version. */
export function behaviourOf(version: KongVersion): KongBehaviour {
  const at = kongVersions.indexOf(version);
  const from = (first: KongVersion): boolean => at >= kongVersions.indexOf(first);
  return {
    readsBodiesOnDisk: from("3.8"),
    buffersHttp2: from("3.9"),
    skipsForeignServers: from("3.1") && !from("3.5"),
    knowsDescriptions: from("3.4"),
  };
}

/** The attributes of a field that the metaschema of every Kong 3 knows, as far as plugins use them. */
const fieldAttributes = new Set(
  (
    "type required default elements fields referenceable encrypted len_min len_max between gt one_of match not_match " +
    "match_all match_none match_any starts_with"
  ).split(" "),
);

/** What Kong's metaschema says against the schema that the query command printed; undefined where it takes it. */
export function schemaProblem(version: KongVersion | "2.7", entry: unknown): string | undefined {
  const isOld = version === "2.7";
  const knowsDescriptions = !isOld && behaviourOf(version).knowsDescriptions;
  const config = fieldsOf(memberOf(entry, "Schema")).get("config");
  if (config === undefined) return "there is no record `config`";
  for (const [name, field] of fieldsOf(config)) {
    for (const attribute of Object.keys(field)) {
      const isKnown = fieldAttributes.has(attribute)
        ? !isOld || attribute !== "referenceable"
        : knowsDescriptions && attribute === "description";
      if (!isKnown) return `${name}.${attribute}: unknown field`;
    }
  }
  return undefined;
}

function fieldsOf(record: unknown): ReadonlyMap<string, object> {
  const list = memberOf(record, "fields");
  return new Map(
    (Array.isArray(list) ? (list as readonly object[]) : []).flatMap(
      (entry) => Object.entries(entry) as [string, object][],
    ),
  );
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
