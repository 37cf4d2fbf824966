import { detectPersonalData } from "../../src/redact/detectors/personal-data.ts";
import { detectSecrets } from "../../src/redact/detectors/secrets.ts";

/** The detectors that a gateway redacts with. */
export const secretDetectors = { secrets: detectSecrets, personalData: detectPersonalData };

const many = (length: number): string => "aB3".repeat(length).slice(0, length);

/** Secrets as they occur in the wild, made up, each with what it is. None of them may be found where things are kept. */
export const secretCorpus: readonly (readonly [kind: string, secret: string])[] = [
  ["AWS access key", "AKIAIOSFODNN7EXAMPLE"],
  ["GitHub token", `ghp_${many(36)}`],
  ["GitHub fine-grained token", `github_pat_${many(82)}`],
  ["GitLab token", `glpat-${many(20)}`],
  ["Slack token", `xoxb-123456789012-${many(24)}`],
  ["Stripe key", `sk_live_${many(24)}`],
  ["API key of a model", `sk-ant-api03-${many(40)}`],
  ["Google API key", `AIza${many(35)}`],
  ["npm token", `npm_${many(36)}`],
  ["PyPI token", `pypi-${many(60)}`],
  ["JSON web token", `eyJ${many(20)}.eyJ${many(30)}.${many(43)}`],
  ["private key", `-----BEGIN PRIVATE KEY-----\n${many(64)}\n-----END PRIVATE KEY-----`],
  ["key of this gateway", `hgk_${many(43)}`],
  ["Slack session token", `xoxc-123456789012-${many(24)}`],
  ["encrypted JSON web token", `eyJ${many(30)}.${many(40)}.${many(16)}.${many(60)}.${many(22)}`],
  ["PGP private key", `-----BEGIN PGP PRIVATE KEY BLOCK-----\n${many(64)}\n-----END PGP PRIVATE KEY BLOCK-----`],
  ["card number", "4111111111111111"],
  ["card number with spaces", "5500 0000 0000 0004"],
  ["mail address", "ann.lee+x@mail.example.com"],
  ["bank account", "DE89370400440532013000"],
];
