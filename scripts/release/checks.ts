/** What a release is judged by. */
export interface ReleaseState {
  /** The version in package.json. */
  readonly version: string;
  /** package-lock.json. */
  readonly lock: unknown;
  /** The text of CHANGELOG.md. */
  readonly changelog: string;
  /** What `git status --porcelain` prints. */
  readonly changes: string;
  /** The tags of the repository. */
  readonly tags: readonly string[];
}

/** What has to be done before a version can be released; each says how. */
export function releaseProblems({ version, lock, changelog, changes, tags }: ReleaseState): readonly string[] {
  const problems: string[] = [];
  if (!/^\d+\.\d+\.\d+(?:-[\da-z.-]+)?$/u.test(version)) {
    problems.push(`package.json: "${version}" is not a version; set one with npm version`);
  }
  const locked: unknown = Reflect.get(Object(lock), "version");
  if (locked !== version) {
    problems.push(`package-lock.json has version ${String(locked)}; run npm install --package-lock-only`);
  }
  const headings = [...changelog.matchAll(/^## (?<heading>.+)$/gmu)].map(({ groups }) => groups?.["heading"] ?? "");
  const own = headings.find((heading) => heading.split(" ")[0] === version);
  if (own === undefined) {
    problems.push(
      `CHANGELOG.md has no section for ${version}; move what is under "Unreleased" to "## ${version} (date)"`,
    );
  } else if (!/\d{4}-\d{2}-\d{2}/u.test(own)) {
    problems.push(`CHANGELOG.md: the section "${own}" has no date`);
  }
  if (changes !== "") problems.push("the checkout has changes; commit them");
  if (tags.includes(`v${version}`)) problems.push(`the tag v${version} exists; raise the version`);
  return problems;
}

/** Files of a tarball that users must not get: sources, tests, and what may hold secrets. */
export function foreignFiles(paths: readonly string[]): readonly string[] {
  return paths.filter((path) =>
    /^(?:src|test|bench|requirements)\/|(?:^|\/)\.(?!dockerignore$)|\.test\.|\.pem$|\.tgz$|\.sqlite$|(?:^|\/)headgate-(?:keys|peers)$/u.test(
      path,
    ),
  );
}
