// Chooses the prompt that a sentence encoder puts before a text. Nothing for models without prompts.
import { escapeBidi } from "../app/bidi";
import { useApp } from "./context";
import { Select } from "./controls";

export function PromptSelect(props: { label?: string; value: string; onChange: (prompt: string) => void }) {
  const model = useApp().model();
  const names = Object.keys(model?.prompts ?? {});
  if (!model || !names.length) return null;
  const byDefault = model.default_prompt_name;
  const shown = props.value || `=${byDefault ?? ""}`;
  const label = (name: string): string =>
    `${escapeBidi(name)}${name === byDefault ? " (default)" : ""}: “${escapeBidi(model.prompts[name] ?? "")}”`;
  return (
    <Select
      label={props.label ?? "Prompt before the text"}
      help="prompt"
      value={shown}
      options={[["=", "None"], ...names.map((name) => [`=${name}`, label(name)] as const)]}
      onChange={props.onChange}
    />
  );
}
