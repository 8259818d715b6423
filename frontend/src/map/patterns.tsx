/** Patterns that distinguish what colours distinguish, for people and printers that see no colours. */

/** One for each colour. The first is plain. */
const LINES: readonly string[] = [
  "",
  "M-1 5l6-6M0 8l8-8M3 9l6-6",
  "",
  "M2 0v8M6 0v8",
  "M-1 3l6 6M0 0l8 8M3-1l6 6",
  "M0 2h8M0 6h8",
  "M0 4h8M4 0v8",
  "M0 2l2-2l4 4l2-2M0 6l2-2l4 4l2-2",
];

export function Patterns() {
  return (
    <svg class="patterns" width="0" height="0" aria-hidden="true">
      <defs>
        {LINES.map((path, index) => (
          <pattern key={index} id={`p${index}`} width="8" height="8" patternUnits="userSpaceOnUse">
            {path && <path d={path} class="pattern-line" />}
            {index === 2 && (
              <>
                <circle cx="2" cy="2" r="1" class="pattern-dot" />
                <circle cx="6" cy="6" r="1" class="pattern-dot" />
              </>
            )}
          </pattern>
        ))}
        <pattern id="p-blocked" width="5" height="5" patternUnits="userSpaceOnUse">
          <path d="M-1 1l2-2M0 5l5-5M4 6l2-2" class="pattern-blocked" />
        </pattern>
        <pattern id="p-tainted" width="7" height="7" patternUnits="userSpaceOnUse">
          <path d="M0 3.5h7M3.5 0v7" class="pattern-tainted" />
        </pattern>
        <pattern id="p-unschedulable" width="6" height="6" patternUnits="userSpaceOnUse">
          <circle cx="1.5" cy="1.5" r="0.9" class="pattern-unschedulable" />
          <circle cx="4.5" cy="4.5" r="0.9" class="pattern-unschedulable" />
        </pattern>
      </defs>
    </svg>
  );
}

/** A sample of a colour with its pattern. */
export function Swatch({ index }: { index: number }) {
  return (
    <svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">
      <rect class={`fill ${index < 0 ? "c-none" : `c${index}`}`} x="0.5" y="0.5" width="13" height="13" rx="2" />
      {index > 0 && <rect x="0.5" y="0.5" width="13" height="13" rx="2" fill={`url(#p${index})`} />}
    </svg>
  );
}

/** A sample of a state. */
export function StateSwatch({ state }: { state: string }) {
  return (
    <svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">
      <rect class={`fill s-${state}`} x="0.5" y="0.5" width="13" height="13" rx="2" />
      {state === "shared" && <rect class="fill s-in-use" x="0.5" y="0.5" width="6" height="13" rx="2" />}
      {["blocked", "tainted", "unschedulable"].includes(state) && (
        <rect x="0.5" y="0.5" width="13" height="13" rx="2" fill={`url(#p-${state})`} />
      )}
    </svg>
  );
}
