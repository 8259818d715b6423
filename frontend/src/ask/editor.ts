/** The editor, which is loaded only where it is shown. It lives in a shadow root: its style sheets are then allowed. */

import { autocompletion, type CompletionContext, type CompletionResult, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Annotation, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { AskOptions } from "../types.ts";
import type { Mark } from "./replacements.ts";

type Vocabulary = NonNullable<AskOptions["vocabulary"]>;

export interface Editor {
  setText(text: string): void;
  setMarks(marks: readonly Mark[]): void;
  goTo(offset: number): void;
  focus(): void;
  destroy(): void;
}

const fromOutside = Annotation.define<boolean>();

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--surface)", fontSize: "13px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { caretColor: "var(--accent)", padding: "10px 0" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--ink-3)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--active-line)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-placeholder": { color: "var(--ink-3)" },
  ".cm-tooltip": {
    backgroundColor: "var(--surface)",
    color: "var(--ink)",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
    boxShadow: "var(--shadow)",
    overflow: "hidden",
  },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--ink)", color: "var(--surface)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.75", fontStyle: "normal" },
  ".cm-diagnostic": { padding: "8px 12px", borderLeft: "none", fontFamily: "var(--sans)", fontSize: "13px", maxWidth: "46em" },
  ".cm-diagnosticAction": {
    backgroundColor: "var(--ink)",
    color: "var(--surface)",
    borderRadius: "4px",
    padding: "3px 9px",
    margin: "6px 0 0 0",
    fontSize: "12px",
  },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--accent)", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning, .cm-lintRange-info": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--ink-3)",
    textUnderlineOffset: "3px",
  },
  ".cm-lint-marker": { width: "9px", height: "9px", marginTop: "5px", borderRadius: "50%", content: "none" },
  ".cm-lint-marker-error": { content: "none", backgroundColor: "var(--accent)" },
  ".cm-lint-marker-warning, .cm-lint-marker-info": { content: "none", border: "2px solid var(--ink-3)" },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--ink)" },
  ".cm-selectionMatch": { backgroundColor: "var(--active-line)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-key)" },
  { tag: [tags.string, tags.content, tags.literal], color: "var(--ink)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--ink-3)", fontStyle: "italic" },
  { tag: [tags.meta, tags.separator, tags.punctuation, tags.squareBracket, tags.brace], color: "var(--ink-3)" },
  { tag: [tags.keyword, tags.typeName], color: "var(--accent-text)" },
]);

/** What a field accepts, by its key. */
function completions(vocabulary: () => Vocabulary) {
  return (context: CompletionContext): CompletionResult | null => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const known = vocabulary();
    const value = /(deviceClassName|driver|matchAttribute|distinctAttribute)\s*:\s*["']?([\w.\-/]*)$/.exec(before);
    if (value) {
      const names = value[1] === "deviceClassName" ? known.classes : value[1] === "driver" ? known.drivers
        : known.attributes?.map(({ driver, name }) => (name.includes("/") ? name : `${driver}/${name}`));
      return options(context.pos - (value[2]?.length ?? 0), names, value[1] ?? "");
    }
    const attribute = /device\.(attributes|capacity)\[\s*["']([\w.\-]+)["']\s*\]\.(\w*)$/.exec(before);
    if (attribute) {
      const [, list, driver, typed = ""] = attribute;
      const entries = list === "attributes" ? known.attributes : known.capacities;
      return {
        from: context.pos - typed.length,
        options: (entries ?? [])
          .filter((entry) => entry.driver === driver)
          .map((entry) => ({
            label: entry.name,
            type: "property",
            detail: "type" in entry && typeof entry.type === "string" ? entry.type : list === "capacity" ? "quantity" : "",
            ...("values" in entry && Array.isArray(entry.values) && entry.values.length
              ? { info: `for example ${entry.values.slice(0, 4).join(", ")}` }
              : {}),
          })),
        validFor: /^\w*$/,
      };
    }
    const domain = /device\.(?:attributes|capacity)\[\s*["']([\w.\-]*)$/.exec(before);
    if (domain) return options(context.pos - (domain[1]?.length ?? 0), known.drivers, "driver");
    const member = /\bdevice\.(\w*)$/.exec(before);
    if (member) return options(context.pos - (member[1]?.length ?? 0), ["driver", "attributes", "capacity"], "CEL");
    const key = /^(\s*(?:- )*)(\w*)$/.exec(before);
    if (key && (key[2] || context.explicit)) return options(context.pos - (key[2]?.length ?? 0), KEYS, "field", ": ");
    return null;
  };
}

const KEYS = [
  "apiVersion", "kind", "metadata", "name", "namespace", "spec", "devices", "requests", "constraints", "config",
  "exactly", "firstAvailable", "deviceClassName", "selectors", "cel", "expression", "allocationMode", "count",
  "capacity", "tolerations", "adminAccess", "matchAttribute", "distinctAttribute", "resourceClaims",
  "resourceClaimName", "resourceClaimTemplateName", "containers", "image", "resources", "claims", "limits",
  "nodeSelector", "template", "replicas", "selector", "matchLabels",
];

function options(from: number, names: readonly string[] | undefined, detail: string, suffix = ""): CompletionResult | null {
  if (!names?.length) return null;
  return {
    from,
    options: names.map((label) => ({ label, detail, apply: label + suffix, type: "constant" })),
    validFor: /^[\w.\-/]*$/,
  };
}

export function createEditor(
  host: HTMLElement,
  { text, vocabulary, onChange, onSubmit, onLeave }: {
    text: string;
    vocabulary: () => Vocabulary;
    onChange: (text: string) => void;
    onSubmit: () => void;
    onLeave: () => void;
  },
): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const view = new EditorView({
    root,
    parent: root as unknown as Element,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        lintGutter(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        EditorState.tabSize.of(2),
        indentUnit.of("  "),
        yaml(),
        syntaxHighlighting(colours),
        autocompletion({ override: [completions(vocabulary)], icons: false }),
        placeholder("Paste a manifest: a Pod, Deployment, ResourceClaim …"),
        EditorView.contentAttributes.of({ "aria-label": "Manifest, YAML", spellcheck: "false", tabindex: "0" }),
        keymap.of([
          { key: "Mod-Enter", run: () => (onSubmit(), true) },
          // Escape leaves the editor, so that the tabulator key, which indents, is no trap.
          { key: "Escape", run: () => (onLeave(), true) },
          ...completionKeymap,
          ...lintKeymap,
          ...searchKeymap,
          ...historyKeymap,
          indentWithTab,
          ...defaultKeymap,
        ]),
        theme,
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.some((one) => one.annotation(fromOutside)))
            onChange(update.state.doc.toString());
        }),
      ],
    }),
  });
  view.dom.style.height = "100%";

  return {
    setText(next) {
      if (next === view.state.doc.toString()) return;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: next }, annotations: fromOutside.of(true) });
    },
    setMarks(marks) {
      const end = view.state.doc.length;
      const diagnostics = marks.map(
        ({ from, to, level, source, message, fix }): Diagnostic => ({
          from: Math.min(from, end),
          to: Math.min(to, end),
          severity: level === "error" ? "error" : level === "warning" ? "warning" : "info",
          source,
          message,
          actions: fix
            ? [{ name: fix.name, apply: (target) => target.dispatch({ changes: fix.edits.map((edit) => ({ ...edit })) }) }]
            : [],
        }),
      );
      view.dispatch(setDiagnostics(view.state, diagnostics.sort((one, other) => one.from - other.from)));
    },
    goTo(offset) {
      view.dispatch({ selection: { anchor: Math.min(offset, view.state.doc.length) }, scrollIntoView: true });
      view.focus();
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
