import { type Revision, revisionNames } from "../../protocol/revisions.ts";
import { loadSchemaValidator, type SchemaValidator } from "../../protocol/validation/schema-validator.ts";

/** The schemas of all revisions, which are loaded when a route first needs them. */
interface LoadedSchemas {
  /** Undefined until they are loaded. */
  readonly loaded: ReadonlyMap<Revision, SchemaValidator> | undefined;
  /** Rejects where they cannot be loaded: then no message passes unchecked. */
  readonly loading: Promise<unknown>;
}

let shared: LoadedSchemas | undefined;

/** Loads the schemas of all revisions, once for all routes. */
export function loadSchemas(): LoadedSchemas {
  if (shared !== undefined) return shared;
  let loaded: LoadedSchemas["loaded"];
  const loading = Promise.all(revisionNames.map(loadSchemaValidator)).then((validators) => {
    loaded = new Map(validators.map((validator) => [validator.revision, validator]));
  });
  // Messages that wait for it are told; without any, nobody has to be.
  loading.catch(() => {});
  shared = {
    get loaded() {
      return loaded;
    },
    loading,
  };
  return shared;
}
