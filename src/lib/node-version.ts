// Every entry point of the package imports this first. On an older Node it throws a message that says what to do, before
// something else fails with an obscure error. That works only while the package links there: what older
// versions lack is never imported by name (see sqlite.ts).
const needed = 24;
// There is no process in a browser, where the protocol core may be bundled.
const version = (globalThis as { readonly process?: NodeJS.Process }).process?.versions.node;

if (version !== undefined && Number(version.split(".")[0]) < needed) {
  throw new Error(
    `headgate needs Node ${needed} or newer; this is Node ${version}. Install a newer one from https://nodejs.org`,
  );
}
