/** Quick fixes: replacements at lines and columns, as `allot check` states them, applied to a text. */

import type { Finding, Position } from "../types.ts";

/** The offset of a line and column, both counted from 1; columns count code points. */
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let current = 1; current < line; current += 1) {
    const end = text.indexOf("\n", start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  const end = text.indexOf("\n", start);
  const content = text.slice(start, end < 0 ? text.length : end);
  let units = 0;
  let points = 1;
  for (const character of content) {
    if (points >= column) break;
    units += character.length;
    points += 1;
  }
  return start + units;
}

export function rangeOf(text: string, position: Position): { from: number; to: number } {
  const from = offsetOf(text, position.line, position.column);
  const to = offsetOf(text, position.endLine || position.line, position.endColumn || position.column);
  return { from, to: Math.max(from, to) };
}

export interface Edit {
  from: number;
  to: number;
  insert: string;
}

/** The edits of a finding's fix, in order; none if it has no fix. */
export function editsOf(text: string, finding: Finding): Edit[] {
  return (finding.fix?.replacements ?? [])
    .map((replacement) => ({ ...rangeOf(text, replacement), insert: replacement.text ?? "" }))
    .sort((a, b) => a.from - b.from);
}

export function applied(text: string, edits: readonly Edit[]): string {
  let result = "";
  let position = 0;
  for (const { from, to, insert } of edits) {
    result += text.slice(position, from) + insert;
    position = to;
  }
  return result + text.slice(position);
}

/** A finding at its place in the text, as the editor shows it. */
export interface Mark {
  from: number;
  to: number;
  level: string;
  source: string;
  message: string;
  fix: { name: string; edits: Edit[] } | null;
}

export function marksOf(text: string, findings: readonly Finding[]): Mark[] {
  return findings.map((finding) => {
    const edits = editsOf(text, finding);
    return {
      ...rangeOf(text, finding),
      level: finding.level,
      source: finding.code,
      message: [finding.message, finding.help].filter(Boolean).join(". "),
      fix: edits.length ? { name: finding.fix?.text ?? "Fix", edits } : null,
    };
  });
}
