/** The funnel: how many devices each step leaves, one bar for each, the step that ended it in the accent colour. */

import { namespaced } from "../address.ts";
import { ObjectLink } from "../parts/parts.tsx";
import { counted, listed } from "../parts/text.ts";
import type { Answer, Funnel, FunnelStep } from "../types.ts";

/** Names of steps, for the column at the left. */
const STEPS: Record<string, string> = {
  class: "class",
  selector: "selector",
  taint: "taints",
  taints: "taints",
  capacity: "capacity",
  counters: "counters",
  "in-use": "in use",
  constraint: "constraint",
  node: "node",
  count: "count",
};

export function Funnels({ funnels, answer }: { funnels: Funnel[]; answer?: Answer | undefined }) {
  const others = refusals(answer);
  if (!funnels.length && !others.length) return null;
  const shown = funnels.slice(0, 1);
  const rest = funnels.slice(1);
  return (
    <section class="funnels" aria-labelledby="funnels-title">
      <h3 id="funnels-title">{funnels.length ? "What excluded each device" : "Nodes"}</h3>
      {shown.map((funnel, index) => (
        <FunnelChart key={index} funnel={funnel} />
      ))}
      {rest.map((funnel, index) => (
        <details class="more-funnels" key={index}>
          <summary>
            {funnelTitle(funnel)} <span class="soft">{endText(funnel)}</span>
          </summary>
          <FunnelChart funnel={funnel} />
        </details>
      ))}
      {others.length > 0 && (
        <ul class="other-nodes">
          {others.map(({ nodes, summary }) => (
            <li key={summary}>
              {!summary.startsWith(`${nodes[0]} `) && <strong>{listed(nodes, 3)}</strong>} {summary}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Why nodes are excluded whose devices were not even considered; those with the same reason together. */
function refusals(answer: Answer | undefined): { nodes: string[]; summary: string }[] {
  const bySummary = new Map<string, string[]>();
  for (const { nodes, refused } of answer?.reasons?.nodes ?? [])
    if (!refused.funnels?.length) bySummary.set(refused.summary, [...(bySummary.get(refused.summary) ?? []), ...nodes]);
  return [...bySummary].map(([summary, nodes]) => ({ nodes, summary }));
}

function funnelTitle(funnel: Funnel): string {
  const nodes = funnel.nodes?.length ? listed(funnel.nodes, 3) : "";
  return [nodes, funnel.request && `request ${funnel.request}`].filter(Boolean).join(", ");
}

function endText(funnel: Funnel): string {
  const end = ending(funnel);
  if (end) return `ended by ${STEPS[end.step] ?? end.step}`;
  return hasTooFew(funnel) ? "too few devices" : "";
}

/** The step that ended it: as marked, else the first that loses devices and leaves too few. */
export function ending(funnel: Funnel): FunnelStep | undefined {
  const steps = funnel.steps ?? [];
  let before = funnel.visible ?? Infinity;
  const endsIt = ({ left = 0 }: FunnelStep) => {
    const isEnd = left < Math.min(before, wantedBy(funnel));
    before = left;
    return isEnd;
  };
  return steps.find((step) => step.isEnd) ?? steps.find(endsIt);
}

function wantedBy({ wanted = 1 }: Funnel): number {
  return Math.max(1, wanted);
}

/** Whether no step is to blame, because fewer devices are published than requested. */
function hasTooFew(funnel: Funnel): boolean {
  return !ending(funnel) && (funnel.visible ?? Infinity) < wantedBy(funnel);
}

export function FunnelChart({ funnel }: { funnel: Funnel }) {
  const steps = funnel.steps ?? [];
  const most = Math.max(1, funnel.visible ?? 0, ...steps.map((step) => step.left ?? 0));
  const end = ending(funnel);
  let before = funnel.visible ?? most;
  return (
    <figure class="funnel">
      <figcaption>
        <strong>{funnel.wanted === 0 ? "All devices" : counted(funnel.wanted ?? 1, "device")}</strong>
        {funnel.deviceClass && (
          <>
            {" "}
            of class <code>{funnel.deviceClass}</code>
          </>
        )}{" "}
        requested
        {funnel.claim && (
          <>
            {" "}
            by claim <code>{funnel.claim}</code>
            {funnel.request && `, request ${funnel.request}`}
          </>
        )}
        {funnel.nodes?.length ? <> on {listed(funnel.nodes, 3)}</> : null}
      </figcaption>
      <ol class="steps">
        <StepRow
          step={{ step: "visible", text: "published here", left: funnel.visible ?? most }}
          most={most}
          before={funnel.visible ?? most}
          isEnd={hasTooFew(funnel)}
        />
        {steps.map((step, index) => {
          const row = <StepRow key={index} step={step} most={most} before={before} isEnd={step === end} />;
          before = step.left ?? 0;
          return row;
        })}
      </ol>
    </figure>
  );
}

function StepRow({ step, most, before, isEnd }: { step: FunnelStep; most: number; before: number; isEnd: boolean }) {
  const left = step.left ?? 0;
  const width = (count: number) => (100 * count) / most;
  const lost = step.lost ?? [];
  // Each text names its claim.
  const areLinks = step.claims !== undefined && step.claims.length > 0 && step.claims.length === step.by?.length;
  return (
    <li class={isEnd ? "step step-end" : "step"}>
      <span class="step-name">{step.step === "visible" ? "devices" : (STEPS[step.step] ?? step.step)}</span>
      <span class="step-left">
        {left.toLocaleString("en")}
        <span class="unseen"> left{isEnd ? "; this step ended it" : ""}</span>
      </span>
      <span class="step-main">
        <svg class="step-bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
          <rect class="step-before" width={width(before)} height="10" />
          <rect class="step-part" width={Math.max(left ? 0.6 : 0, width(left))} height="10" />
        </svg>
        {step.text !== (STEPS[step.step] ?? step.step) && <span class="step-text">{step.text}</span>}
        {lost.length > 0 && (
          <span class="step-lost">
            lost {counted(lost.length, "device")}: {listed(lost, 4)}
          </span>
        )}
        {(step.by ?? []).slice(0, 4).map((by, index) => (
          <span class="step-by" key={by}>
            {areLinks ? (
              <ObjectLink kind="claim" {...namespaced(step.claims?.[index] ?? "")}>
                {by}
              </ObjectLink>
            ) : (
              by
            )}
          </span>
        ))}
        {(step.by?.length ?? 0) > 4 && <span class="step-by">and {(step.by?.length ?? 0) - 4} more</span>}
        {step.claims?.length && !areLinks ? (
          <span class="step-claims">
            {step.claims.slice(0, 4).map((claim) => (
              <ObjectLink key={claim} kind="claim" {...namespaced(claim)}>
                claim {claim}
              </ObjectLink>
            ))}
          </span>
        ) : null}
      </span>
    </li>
  );
}
