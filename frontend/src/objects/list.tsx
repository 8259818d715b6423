/** All objects that have to do with devices, by kind, with a search. */

import { useState } from "preact/hooks";
import { go, useAddress, withQuery } from "../address.ts";
import { Empty, ObjectLink, ProblemNote } from "../parts/parts.tsx";
import { counted } from "../parts/text.ts";
import { ScreenHead, Unanswered, useClusterHeader } from "../shell/shell.tsx";
import { useTwin } from "../twin.ts";
import type { ObjectItem, ObjectsScreen } from "../types.ts";

const PAGE = 200;

/** The search without a kind, and the kind: `kind:pod trainer`. */
function split(search: string): { kind: string; rest: string } {
  const words = search.split(/\s+/).filter(Boolean);
  const kind = words.find((word) => word.startsWith("kind:"));
  return { kind: kind?.slice(5) ?? "", rest: words.filter((word) => word !== kind).join(" ") };
}

function pathOf(search: string): string {
  return search.trim() ? `/objects?q=${encodeURIComponent(search.trim())}` : "/objects";
}

export function ObjectsScreen({ kind }: { kind: string }) {
  const address = useAddress();
  const search = address.query.get("q") ?? (kind ? `kind:${kind}` : "");
  const { kind: chosen, rest } = split(search);
  const { value, problem } = useTwin<ObjectsScreen>(pathOf(search));
  // The counts of all kinds, of which the list may show one.
  const { value: whole } = useTwin<ObjectsScreen>(pathOf(rest));
  useClusterHeader(value?.cluster);
  const [limit, setLimit] = useState(PAGE);
  if (!value) return <Unanswered title="Objects" what="the objects" problem={problem} />;
  const items = value.items ?? [];
  const kinds = whole?.kinds ?? value.kinds ?? [];
  const matching = value.matching ?? items.length;
  return (
    <>
      <ScreenHead title="Objects" command={value.command} isTitleFocused={!search}>
        Nodes, devices, claims and what refers to them.
      </ScreenHead>
      {problem && <ProblemNote problem={problem} />}
      <div class="tools">
        <label class="search">
          <span class="unseen">Search names</span>
          <input
            type="search"
            placeholder="trainer ns:team-a state:pending"
            data-search
            value={search}
            onInput={(event) => go(withQuery({ q: event.currentTarget.value }, { ...address, path: "/objects" }), { replace: true })}
          />
          <kbd aria-hidden="true">/</kbd>
        </label>
        <nav class="kinds" aria-label="Kinds">
          <a href={pathOf(rest)} aria-current={chosen ? undefined : "true"}>
            all
          </a>
          {kinds.map(({ kind: name, count }) => (
            <a
              key={name}
              href={pathOf(`kind:${name} ${rest}`)}
              aria-current={name.toLowerCase() === chosen.toLowerCase() ? "true" : undefined}
            >
              {name} <span class="soft">{count.toLocaleString("en")}</span>
            </a>
          ))}
        </nav>
      </div>
      {items.length ? (
        <div class="table-frame" tabIndex={0} role="region" aria-label="Objects">
          <table class="objects-table">
            <thead>
              <tr>
                <th scope="col">Name</th>
                {!chosen && <th scope="col">Kind</th>}
                <th scope="col">State</th>
              </tr>
            </thead>
            <tbody>
              {items.slice(0, limit).map((item) => (
                <Row key={`${item.kind} ${item.namespace} ${item.name}`} item={item} hasKind={!chosen} />
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <Empty title={search ? "Nothing matches" : "There are no objects"} />
      )}
      {items.length > limit ? (
        <button type="button" onClick={() => setLimit(limit + 5 * PAGE)}>
          Show more of {counted(items.length, "object")}
        </button>
      ) : (
        matching > items.length && (
          <p class="hint">
            The first {items.length} of {counted(matching, "object")}. The search finds the others.
          </p>
        )
      )}
    </>
  );
}

function Row({ item, hasKind }: { item: ObjectItem; hasKind: boolean }) {
  return (
    <tr>
      <th scope="row">
        <ObjectLink kind={item.kind} namespace={item.namespace ?? ""} name={item.name}>
          {item.namespace && <span class="soft">{item.namespace}/</span>}
          {item.name}
        </ObjectLink>
      </th>
      {hasKind && <td>{item.kind}</td>}
      <td>{item.state}</td>
    </tr>
  );
}
