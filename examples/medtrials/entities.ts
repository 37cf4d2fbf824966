import { z } from "zod";

import { defineEntity, kitFailure } from "../../src/server-kit/index.ts";

const scope = "clinical:operations";

/** Where a trial takes place. */
export const TrialSite = defineEntity(
  "TrialSite",
  z.object({
    id: z.uuid(),
    name: z.string().min(1).max(200).describe("What the site is called."),
    location: z.string().min(1).describe("City and country."),
    principalInvestigator: z.string().optional(),
    enrollmentTarget: z.int().min(0).default(0),
    enrolledCount: z.int().min(0).default(0),
    regulatoryStatus: z.enum(["Pending", "Approved", "Suspended"]).default("Pending"),
    phase: z.enum(["I", "II", "III", "IV"]).default("I"),
    auditNote: z.string().default("").describe("Never shown to clients."),
    revision: z.int(),
    updatedAt: z.iso.datetime(),
  }),
  {
    description: "Clinical trial site operations",
    requiredScopes: [scope],
    generated: { updatedAt: "updatedAt" },
    hidden: ["auditNote"],
    version: "revision",
    hooks: {
      beforeUpdate: (site) => {
        if (site.enrolledCount > site.enrollmentTarget && site.enrollmentTarget > 0) {
          throw kitFailure("conflict", "a site cannot enrol more participants than its target");
        }
      },
    },
  },
);

/** A participant's visit at a site. */
export const Visit = defineEntity(
  "Visit",
  z.object({
    id: z.uuid(),
    siteId: z.uuid(),
    participant: z.string().describe("The participant's code, never a name."),
    plannedFor: z.iso.date(),
    status: z.enum(["Planned", "Done", "Missed"]).default("Planned"),
    diagnostics: z.record(z.string(), z.number()).default({}),
  }),
  { description: "Visits of participants at trial sites", requiredScopes: [scope] },
);

/** Something that happened to a participant. It is reported and read, and never taken back. */
export const AdverseEvent = defineEntity(
  "AdverseEvent",
  z.object({
    id: z.uuid(),
    siteId: z.uuid(),
    participant: z.string(),
    severity: z.enum(["Mild", "Moderate", "Severe"]),
    description: z.string().min(1),
    reportedAt: z.iso.datetime(),
  }),
  {
    description: "Adverse events reported by sites",
    requiredScopes: [scope],
    generated: { reportedAt: "createdAt" },
    operations: ["List", "Get", "Create"],
  },
);

/** Readable by everybody, over HTTP+SSE only: the document's public entity. */
export const PublicData = defineEntity("PublicData", z.object({ id: z.string(), value: z.string() }), {
  requireAuthentication: false,
  enabledTransports: ["http-sse"],
});

/** Readable with a login and a scope: the document's secure entity. */
export const SecureData = defineEntity("SecureData", z.object({ id: z.string(), value: z.string() }), {
  requireAuthentication: true,
  requiredScopes: ["admin:write"],
});
