import { createServer } from "node:net";
import { join } from "node:path";
import { runTool } from "../../scripts/run/tool.ts";

/** A package of somebody else, and its program within it. */
export interface PeerPackage {
  readonly name: string;
  readonly version: string;
  readonly program: string;
}

/** The path of its program, or why it could not be installed. */
export type Installed = { readonly ok: true; readonly file: string } | { readonly ok: false; readonly reason: string };

/** Installs a package into a folder, apart from what we use ourselves. */
export async function installPeer(folder: string, { name, version, program }: PeerPackage): Promise<Installed> {
  const { exitCode, output } = await runTool(
    ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", `${name}@${version}`],
    { cwd: folder, timeoutMs: 180_000 },
  );
  if (exitCode !== 0) return { ok: false, reason: output };
  return { ok: true, file: join(folder, "node_modules", name, program) };
}

/** A port that nobody listens on; these programs do not choose one themselves. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  await new Promise((resolve) => {
    server.close(resolve);
  });
  if (address === null || typeof address === "string") throw new Error("listening on no port");
  return address.port;
}
