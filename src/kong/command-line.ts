import { parseArgs } from "node:util";
import { pluginIdentity } from "./plugin-definition.ts";

/** What the arguments ask for, or what is wrong with them. */
export type KongCommand =
  | { readonly do: "help" }
  | { readonly do: "version" }
  | { readonly do: "query"; readonly accessOnly: boolean }
  | { readonly do: "serve"; readonly socket: string; readonly accessOnly: boolean }
  | { readonly do: "usage-error"; readonly problem: string };

/** Shown by `--help`. */
export const kongHelp = `headgate-kong: the Kong plugin ${pluginIdentity.name} ${pluginIdentity.version}

  headgate-kong --query [--access-only]          describe the plugin to Kong as JSON, then exit
  headgate-kong --socket PATH [--access-only]    serve Kong on a Unix socket until stopped

Options
  --query         Print the name, version, priority, phases and settings of the plugin.
  --socket PATH   Where Kong connects: pluginserver_<name>_socket in kong.conf.
  --access-only   Omit the response phase, so that Kong does not buffer responses and event
                  streams flow. Pass it to both commands.
  --version       Print the version of the plugin.
  --help          Print this.

kong.conf
  plugins = bundled,${pluginIdentity.name}
  pluginserver_names = headgate
  pluginserver_headgate_socket    = /usr/local/kong/headgate.sock
  pluginserver_headgate_start_cmd = headgate-kong --socket /usr/local/kong/headgate.sock
  pluginserver_headgate_query_cmd = headgate-kong --query
`;

/** Reads the arguments. */
export function parseKongCommand(args: readonly string[]): KongCommand {
  let given;
  try {
    given = parseArgs({
      args: [...args],
      options: {
        query: { type: "boolean" },
        socket: { type: "string" },
        "access-only": { type: "boolean" },
        version: { type: "boolean", short: "v" },
        help: { type: "boolean", short: "h" },
      },
      strict: true,
    }).values;
  } catch (error) {
    // The first sentence of Node's message names the option; the others are about positional arguments.
    const [sentence = ""] = thrownText(error).split(/[.\n]/u, 1);
    return { do: "usage-error", problem: `${sentence}; see --help` };
  }
  const { query = false, socket, "access-only": accessOnly = false, version = false } = given;
  if (given.help === true) return { do: "help" };
  if (version) return { do: "version" };
  if (query && socket !== undefined) {
    return { do: "usage-error", problem: "--query and --socket exclude each other" };
  }
  if (query) return { do: "query", accessOnly };
  if (socket === undefined) return { do: "usage-error", problem: "expected --query or --socket PATH; see --help" };
  if (socket === "") return { do: "usage-error", problem: "--socket needs the path of a socket" };
  return { do: "serve", socket, accessOnly };
}

function thrownText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
