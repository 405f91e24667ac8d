// Controls of one field of the state, which they show and set.
import type { ComponentChildren } from "preact";
import type { State } from "../app/state";
import { useApp } from "./context";
import { Disclosure, Segmented, Select, Toggle } from "./controls";

type Fields<T> = { [K in keyof State]: State[K] extends T ? K : never }[keyof State];
type Words<K extends keyof State> = Extract<State[K], string>;

// `step`: a change is a step of the browser's history.
type Of<K, Props> = { field: K; step?: boolean } & Omit<Props, "value" | "on" | "onChange">;

export function StateToggle({ field, step = false, ...props }: Of<Fields<boolean>, Parameters<typeof Toggle>[0]>) {
  const app = useApp();
  return <Toggle {...props} on={app.state[field]} onChange={(on) => app.set({ [field]: on }, step)} />;
}

export function StateSelect<K extends Fields<string>>(props: Of<K, Parameters<typeof Select<Words<K>>>[0]>) {
  const app = useApp();
  const { field, step = false, ...rest } = props;
  return (
    <Select {...rest} value={app.state[field] as Words<K>} onChange={(value) => app.set({ [field]: value }, step)} />
  );
}

export function StateSegmented<K extends Fields<string>>(props: Of<K, Parameters<typeof Segmented<Words<K>>>[0]>) {
  const app = useApp();
  const { field, step = false, ...rest } = props;
  return (
    <Segmented {...rest} value={app.state[field] as Words<K>} onChange={(value) => app.set({ [field]: value }, step)} />
  );
}

export function StateDisclosure(props: { field: Fields<boolean>; title: string; children: ComponentChildren }) {
  const app = useApp();
  const { field, title, children } = props;
  return (
    <Disclosure title={title} open={app.state[field]} onToggle={() => app.set({ [field]: !app.state[field] })}>
      {children}
    </Disclosure>
  );
}
