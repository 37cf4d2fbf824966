import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { isTty, type ServingIo } from "../io.ts";

/** Lets the user edit text in `$VISUAL` or `$EDITOR`; undefined where the editor failed. */
export function editText(
  text: string,
  { env, stdin, err }: Pick<ServingIo, "env" | "stdin" | "err">,
): string | undefined {
  const editor = env["VISUAL"] ?? env["EDITOR"] ?? (process.platform === "win32" ? "notepad" : "vi");
  // Only the user can read it: messages hold what nobody else should see.
  const folder = mkdtempSync(join(tmpdir(), "headgate-edit-"));
  const file = join(folder, "message.json");
  try {
    writeFileSync(file, text, { mode: 0o600 });
    // It waits, so that nobody else reads what is typed into the editor. An editor is a command line, as in git.
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
