/** The map as a table, for screen readers and for everybody who prefers reading. */

import { useState } from "preact/hooks";
import { ObjectLink } from "../parts/parts.tsx";
import { counted, listed } from "../parts/text.ts";
import type { MapScreen } from "../types.ts";
import { holdersOf, type MapModel, type ShownNode } from "./model.ts";

const PAGE = 200;

export function MapTable({ map, model }: { map: MapScreen; model: MapModel }) {
  const [limit, setLimit] = useState(PAGE);
  const nodes = model.groups.flatMap((group) => group.nodes);
  return (
    <>
      <div class="table-frame" tabIndex={0} role="region" aria-label="Nodes as a table">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Hardware</th>
              <th scope="col" class="number">
                With room
              </th>
              <th scope="col" class="number">
                Devices
              </th>
              <th scope="col">Used by</th>
              <th scope="col">Notes</th>
            </tr>
          </thead>
          <tbody>
            {nodes.slice(0, limit).map((shown) => (
              <Row key={shown.node.name} map={map} shown={shown} />
            ))}
          </tbody>
        </table>
      </div>
      {nodes.length > limit && (
        <button type="button" onClick={() => setLimit(limit + 5 * PAGE)}>
          Show more of {counted(nodes.length, "node")}
        </button>
      )}
    </>
  );
}

/** Why no pod is placed on a node. */
export function cordonText(reason: string | boolean): string {
  return typeof reason === "string" ? reason : "cordoned";
}

function Row({ map, shown }: { map: MapScreen; shown: ShownNode }) {
  const holders = new Set<string>();
  for (const device of shown.node.devices ?? [])
    for (const holder of holdersOf(map, device))
      holders.add(holder.workload || holder.pods?.[0] || holder.claim || "");
  const notes = [
    ...(shown.node.unschedulable ? [cordonText(shown.node.unschedulable)] : []),
    ...(shown.node.problems ?? []),
    ...new Set((shown.node.devices ?? []).flatMap((device) => device.taints ?? []).map((taint) => `taint ${taint}`)),
  ];
  return (
    <tr>
      <th scope="row">{shown.node.name ? <ObjectLink kind="node" name={shown.node.name} /> : "several nodes"}</th>
      <td>{shown.product}</td>
      <td class="number">{shown.facts.free}</td>
      <td class="number">{shown.facts.devices}</td>
      <td>{listed([...holders], 4)}</td>
      <td>{notes.join("; ")}</td>
    </tr>
  );
}
