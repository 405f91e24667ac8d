// Chooses the languages of a text and of its target. Nothing for models whose texts have no language.
import type { FieldName } from "../app/problems";
import { stackOf } from "../app/stacks";
import type { State } from "../app/state";
import { useApp } from "./context";
import { Field, Options } from "./controls";
import { guardOf, Guarded } from "./guarded";

const NAMES = new Intl.DisplayNames("en", { type: "language", fallback: "none" });

// "fra_Latn" -> "fra_Latn French (Latin)"; "fr_XX", whose XX is no region, -> "fr_XX French"
function labelOf(code: string): string {
  const name = NAMES.of(code.replace("_XX", "").replace("_", "-"));
  return name ? `${code} ${name}` : code;
}

type Chosen = Partial<Pick<State, "lang" | "tlang">>;

export function Languages(props: {
  problem: { name: FieldName; text: string } | null;
  onChange: (chosen: Chosen) => void;
}) {
  const app = useApp();
  const model = app.model();
  if (!model?.languages.length) return null;
  const fields = [
    { id: "lang", label: "Language of the text", byDefault: model.source_language },
    { id: "tlang", label: "Language of the target", byDefault: model.target_language },
  ] as const;
  return (
    <>
      {fields.slice(0, stackOf(app.state) === "encoder" ? 1 : 2).map(({ id, label, byDefault }) => (
        <Guarded key={id} name={id} problem={props.problem}>
          <Field label={label}>
            <select
              id={id}
              value={model.languages.includes(app.state[id]) ? app.state[id] : (byDefault ?? "")}
              onChange={(e) => props.onChange({ [id]: e.currentTarget.value })}
              {...guardOf(id, props.problem)}
            >
              {byDefault === null && <option value="">Not named</option>}
              <Options of={model.languages.map((code) => [code, labelOf(code)])} />
            </select>
          </Field>
        </Guarded>
      ))}
    </>
  );
}
