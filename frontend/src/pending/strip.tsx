/** What is pending, on the first page: each cause is one click away. */

import { Age, Code } from "../parts/parts.tsx";
import { counted } from "../parts/text.ts";
import type { Twin } from "../twin.ts";
import type { PendingGroup, PendingScreen } from "../types.ts";

const MOST = 4;

export function groupPath(group: PendingGroup): string {
  return `/pending/${encodeURIComponent(group.id)}`;
}

/** Why the group is pending; of pods that fit, why they wait. */
export function summaryOf(group: PendingGroup): string {
  return group.summary || group.waits || group.sentence || group.code;
}

/** How many pods are pending, and how many claims that no pod uses. */
export function amountOf({ count, groups = [] }: PendingScreen): string {
  const claims = groups.reduce((sum, group) => sum + (group.kind === "ResourceClaim" ? group.count : 0), 0);
  return [count && counted(count, "pod"), claims && counted(claims, "claim")].filter(Boolean).join(" and ");
}

export function PendingStrip({ pending: { value, problem } }: { pending: Twin<PendingScreen> }) {
  const groups = value?.groups ?? [];
  const isLong = groups.length > MOST;
  if (!value || !groups.length)
    return (
      <section class={`strip strip-empty${value || problem ? "" : " waiting"}`} aria-label="Pending">
        {value ? "Nothing is pending." : problem ? `What is pending is not known: ${problem.detail || problem.title}` : "Reading what is pending …"}
      </section>
    );
  return (
    <section class="strip" aria-labelledby="strip-title">
      <h2 id="strip-title">
        <strong>{amountOf(value)} pending</strong>
        <span class="soft"> for {counted(groups.length, "reason")}</span>
      </h2>
      <ul class={isLong ? "strip-list strip-long" : "strip-list"} {...(isLong && { tabIndex: 0, "aria-label": "Reasons", role: "list" })}>
        {groups.map((group) => (
          <li key={group.id}>
            <a href={groupPath(group)} class="strip-row">
              <span class="strip-count">{group.count.toLocaleString("en")}</span>
              <span class="strip-text">
                <span class="strip-summary">{summaryOf(group)}</span>
                {group.remedy && <span class="strip-remedy">{group.remedy}</span>}
              </span>
              <Code>{group.code}</Code>
              <span class="strip-age">
                <Age of={group.oldest} />
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
