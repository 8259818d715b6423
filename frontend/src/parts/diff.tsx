/** A change of a manifest, line by line. */

import { diffLines } from "./unified.ts";

const SIGNS = { added: "+", removed: "−", kept: " ", place: " " } as const;
const NAMES = { added: "added: ", removed: "removed: ", kept: "", place: "" } as const;

export function Diff({ text }: { text: string }) {
  const lines = diffLines(text);
  if (!lines.length) return null;
  return (
    <div class="diff" role="region" aria-label="Change of the manifest" tabIndex={0}>
      <table>
        <tbody>
          {lines.map((line, index) => (
            <tr key={index} class={`diff-${line.kind}`}>
              {line.kind === "place" ? (
                <td colSpan={2} class="diff-place-text">
                  {line.text || "⋯"}
                </td>
              ) : (
                <>
                  <td class="diff-sign">
                    <span aria-hidden="true">{SIGNS[line.kind]}</span>
                    <span class="unseen">{NAMES[line.kind]}</span>
                  </td>
                  <td class="diff-text">{line.text}</td>
                </>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
