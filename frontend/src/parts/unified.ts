/** A unified diff as lines with their kinds and numbers. */

export interface DiffLine {
  kind: "added" | "removed" | "kept" | "place";
  text: string;
  /** Line numbers before and after; 0 where there is none. */
  before: number;
  after: number;
}

export function diffLines(text: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let before = 0;
  let after = 0;
  let isInside = false;
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const place = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (place) {
      before = Number(place[1]);
      after = Number(place[2]);
      if (isInside) lines.push({ kind: "place", text: "", before: 0, after: 0 });
      isInside = true;
    } else if (!isInside && /^(---|\+\+\+|diff |index )/.test(line)) {
      if (line.startsWith("+++ ")) lines.push({ kind: "place", text: line.slice(4).trim(), before: 0, after: 0 });
    } else if (line.startsWith("--- ") && isInside) {
      isInside = false; // the next file
    } else if (line.startsWith("+")) lines.push({ kind: "added", text: line.slice(1), before: 0, after: after++ });
    else if (line.startsWith("-")) lines.push({ kind: "removed", text: line.slice(1), before: before++, after: 0 });
    else if (!line.startsWith("\\"))
      lines.push({ kind: "kept", text: line.slice(1), before: before++, after: after++ });
  }
  return lines;
}
