/** What is pending: groups by cause beside the group that is open, with its funnel and its remedies. */

import { useMemo } from "preact/hooks";
import { go, useAddress, withQuery } from "../address.ts";
import { Age, Code, Empty, ProblemNote, useCurrentRow } from "../parts/parts.tsx";
import { counted, listed } from "../parts/text.ts";
import { Notes, ScreenHead, Unanswered, useClusterHeader } from "../shell/shell.tsx";
import { useTwin } from "../twin.ts";
import type { PendingGroup, PendingScreen as PendingAnswer } from "../types.ts";
import { GroupDetail } from "./detail.tsx";
import { amountOf, groupPath, summaryOf } from "./strip.tsx";

export function PendingScreen({ id }: { id: string }) {
  const { value: pending, problem } = useTwin<PendingAnswer>("/pending");
  useClusterHeader(pending?.cluster);
  const address = useAddress();
  const search = address.query.get("q") ?? "";
  const groups = useMemo(() => matching(pending?.groups ?? [], search), [pending, search]);
  if (!pending) return <Unanswered title="Pending" what="what is pending" problem={problem} />;
  const all = pending.groups ?? [];
  const chosen = id || (groups[0]?.id ?? "");
  const isOne = all.length === 1 && all[0]?.count === 1;
  return (
    <>
      <ScreenHead title="Pending" command={pending.command}>
        {all.length ? (
          <>
            <strong>{amountOf(pending)}</strong> {isOne ? "waits" : "wait"} for{" "}
            {counted(all.length, "reason")}. Pods with the same cause and the same request are one group.
          </>
        ) : (
          "Every pod and claim has its devices."
        )}
      </ScreenHead>
      <Notes notes={pending.cluster.notes} />
      {problem && <ProblemNote problem={problem} />}
      {!all.length && !id ? (
        <Empty title="Nothing is pending">
          To see whether something would fit, <a href="/ask">ask with its manifest</a>.
        </Empty>
      ) : (
        <div class="pending">
          <div class="pending-list">
            {all.length > 6 && (
              <label class="search">
                <span class="unseen">Search causes, namespaces, workloads</span>
                <input
                  type="search"
                  placeholder="cause, namespace, workload"
                  data-search
                  value={search}
                  onInput={(event) => go(withQuery({ q: event.currentTarget.value }), { replace: true })}
                />
                <kbd aria-hidden="true">/</kbd>
              </label>
            )}
            <Groups groups={groups} chosen={chosen} search={search} />
            {!groups.length && <Empty title="Nothing matches" />}
          </div>
          {chosen && <GroupDetail key={chosen} id={chosen} />}
        </div>
      )}
    </>
  );
}

function matching(groups: readonly PendingGroup[], search: string): readonly PendingGroup[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return groups.filter((group) => {
    const text = [group.code, summaryOf(group), ...(group.namespaces ?? []), ...(group.workloads ?? []), ...(group.pods ?? [])]
      .join(" ")
      .toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

/** The causes, which scroll by themselves if they are many; the chosen one is visible. */
function Groups({ groups, chosen, search }: { groups: readonly PendingGroup[]; chosen: string; search: string }) {
  const list = useCurrentRow<HTMLUListElement>(chosen);
  return (
    <ul class="groups" aria-label="Causes" ref={list}>
      {groups.map((group) => (
        <GroupRow key={group.id} group={group} isChosen={group.id === chosen} search={search} />
      ))}
    </ul>
  );
}

function GroupRow({ group, isChosen, search }: { group: PendingGroup; isChosen: boolean; search: string }) {
  const query = search ? `?q=${encodeURIComponent(search)}` : "";
  return (
    <li>
      <a href={groupPath(group) + query} class="group-row" aria-current={isChosen ? "true" : undefined}>
        <span class="group-count">{group.count.toLocaleString("en")}</span>
        <span class="group-text">
          <span class="group-summary">{summaryOf(group)}</span>
          <span class="group-meta">
            <Code>{group.code}</Code>
            <span>{listed(group.namespaces ?? [], 2)}</span>
            {group.oldest && (
              <span>
                oldest <Age of={group.oldest} />
              </span>
            )}
          </span>
        </span>
      </a>
    </li>
  );
}
