// Controls of one field of the state, which they show and set. The field says what is written on them.
import type { ComponentChildren } from "preact";
import type { Choice } from "../app/fields";
import { fieldOf, type State } from "../app/state";
import { useApp } from "./context";
import { Disclosure, Segmented, Select, Slider, Toggle } from "./controls";

type Fields<T> = { [K in keyof State]: State[K] extends T ? K : never }[keyof State];
type ValueOf<K extends keyof State> = Extract<State[K], string | number>;

// `step`: a change is a step of the browser's history. `also`: fields that a change sets with it.
type Of<K, Props> = { field: K; step?: boolean; also?: Partial<State> } & Partial<
  Omit<Props, "value" | "on" | "onChange">
>;

// Returns the field's words, its value, and the function that sets it.
function useField<K extends keyof State>(field: K, step = false, also: Partial<State> = {}) {
  const app = useApp();
  const { label = "", title, choices = [] } = fieldOf(field) ?? {};
  const onChange = (value: State[K]): void => app.set({ [field]: value, ...also }, step);
  return { says: title ? { label, title } : { label }, choices, value: app.state[field], onChange };
}

export function StateToggle({ field, step, also, ...props }: Of<Fields<boolean>, Parameters<typeof Toggle>[0]>) {
  const { says, value, onChange } = useField(field, step, also);
  return <Toggle {...says} {...props} on={value} onChange={onChange} />;
}

export function StateSlider({ field, step, also, ...props }: Of<Fields<number>, Parameters<typeof Slider>[0]>) {
  const { says, value, onChange } = useField(field, step, also);
  return <Slider {...says} {...props} value={value} onChange={onChange} />;
}

export function StateSelect<K extends Fields<string | number>>(props: Of<K, Parameters<typeof Select<ValueOf<K>>>[0]>) {
  const { field, step, also, options, ...rest } = props;
  const { says, choices, value, onChange } = useField(field, step, also);
  const named = options ?? choices.map((choice) => [choice.value as ValueOf<K>, choice.label] as const);
  const offered = named.find(([one]) => one === value) ?? named[0]; // an address may have what is not offered here
  return (
    <Select {...says} {...rest} options={named} value={offered?.[0] ?? (value as ValueOf<K>)} onChange={onChange} />
  );
}

export function StateSegmented<K extends Fields<string>>(
  props: Of<K, Parameters<typeof Segmented<ValueOf<K> & string>>[0]>,
) {
  const { field, step, also, choices, ...rest } = props;
  const { says, choices: all, value, onChange } = useField(field, step, also);
  const named = choices ?? (all as readonly Choice<ValueOf<K> & string>[]);
  return <Segmented {...says} {...rest} choices={named} value={value as ValueOf<K> & string} onChange={onChange} />;
}

export function StateDisclosure(props: { field: Fields<boolean>; title: string; children: ComponentChildren }) {
  const { field, title, children } = props;
  const { value, onChange } = useField(field);
  return (
    <Disclosure title={title} open={value} onToggle={() => onChange(!value)}>
      {children}
    </Disclosure>
  );
}
