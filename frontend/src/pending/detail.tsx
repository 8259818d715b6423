/** One cause: the sentence, the funnel that led to it, the nearest miss, and what would help. */

import { useEffect, useRef } from "preact/hooks";
import { namespaced } from "../address.ts";
import { Age, Code, Command, ObjectLink, ProblemNote, Waiting } from "../parts/parts.tsx";
import { counted } from "../parts/text.ts";
import { useClusterHeader } from "../shell/shell.tsx";
import { useTwin } from "../twin.ts";
import type { Answer, GroupScreen, Nearest } from "../types.ts";
import { Funnels } from "./funnel.tsx";
import { summaryOf } from "./strip.tsx";
import { Remedies } from "./remedies.tsx";

export function GroupDetail({ id }: { id: string }) {
  const { value: detail, problem } = useTwin<GroupScreen>(`/pending/${encodeURIComponent(id)}`);
  useClusterHeader(detail?.cluster);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // Who chose the group in the list continues here, however long the list is.
    if (document.activeElement?.closest(".groups")) heading.current?.focus();
  }, [detail !== null]);
  if (!detail)
    return (
      <div class="detail">
        {problem ? (
          <ProblemNote problem={problem}>
            {problem.status >= 400 && problem.status < 500 && (
              <p>
                The pods of this group may have got their devices. <a href="/pending">All that is pending</a>
              </p>
            )}
          </ProblemNote>
        ) : (
          <Waiting what="the reasons" />
        )}
      </div>
    );
  const { group } = detail;
  const pod = group.first ?? group.pods?.[0] ?? detail.answer?.name ?? "";
  return (
    <section class="detail" aria-labelledby="cause">
      {problem && <ProblemNote problem={problem} />}
      <div class="detail-head">
        <h2 id="cause" ref={heading} tabIndex={-1}>{summaryOf(group)}</h2>
        <p class="detail-meta">
          <Code>{group.code}</Code>
          <span>{counted(group.count, group.kind === "ResourceClaim" ? "claim" : "pod")}</span>
          {group.oldest && (
            <span>
              oldest waits <Age of={group.oldest} />
            </span>
          )}
          {detail.answer?.reasons?.headline?.kubernetes && (
            <span>
              Kubernetes says: <q>{detail.answer.reasons.headline.kubernetes}</q>
            </span>
          )}
        </p>
        <PodList pods={group.pods ?? (pod ? [pod] : [])} count={group.count} kind={group.kind ?? detail.answer?.kind} />
        {group.waits && group.summary && <p>{group.waits}</p>}
      </div>
      <Remedies group={group.id} pod={pod} remedies={detail.remedies ?? []} next={group.next ?? ""} />
      <Funnels funnels={detail.funnels ?? []} answer={detail.answer} />
      {detail.nearest && (
        <p class="nearest">
          <strong>Nearest miss</strong> {detail.nearest.sentence}
        </p>
      )}
      {detail.answer?.notes?.map((note) => (
        <p class="note" key={note}>
          {note}
        </p>
      ))}
      {detail.command && <Command text={detail.command} />}
    </section>
  );
}

function PodList({ pods, count, kind = "Pod" }: { pods: string[]; count: number; kind?: Answer["kind"] | undefined }) {
  if (!pods.length) return null;
  const shown = pods.slice(0, 6);
  const target = kind === "ResourceClaim" ? "claim" : "pod";
  return (
    <p class="pods">
      {shown.map((pod) => (
        <ObjectLink key={pod} kind={target} {...namespaced(pod)} />
      ))}
      {count > shown.length && <span class="soft">and {(count - shown.length).toLocaleString("en")} more</span>}
    </p>
  );
}

export function NearestMiss({ nearest }: { nearest: Nearest }) {
  return (
    <p class="nearest">
      <strong>Nearest miss</strong> {nearest.device}
      {nearest.kind && <span class="soft"> ({nearest.kind})</span>} has {nearest.what}{" "}
      {nearest.actual !== undefined && <code>{nearest.actual}</code>} {nearest.qualifier}
      {nearest.wanted !== undefined && (
        <>
          ; <code>{nearest.wanted}</code> requested
        </>
      )}
    </p>
  );
}
